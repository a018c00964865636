// Keeps a page current: numbers by server-sent events, larger parts by asking for them anew. Pages work without it.
"use strict";

const values = document.querySelectorAll("[data-value]");
if (values.length) {
  const events = new EventSource("/events");
  const gone = document.querySelector("[data-gone]");
  events.onerror = () => { gone.hidden = false; };
  events.onmessage = (event) => {
    gone.hidden = true;
    const words = JSON.parse(event.data);
    for (const place of values) {
      const word = words[place.dataset.value];
      if (word !== undefined && place.textContent !== word) {
        place.textContent = word;
        if (place.classList.contains("state")) place.className = "state " + word;
      }
    }
  };
  document.addEventListener("visibilitychange", () => { if (document.hidden) events.close(); else location.reload(); });
}

// What a reader has opened, stands on or is marking stays as it is.
const reached = (part) => [...part.querySelectorAll("a, summary, [tabindex]")];
for (const part of document.querySelectorAll("[data-part]")) {
  setInterval(async () => {
    const marked = getSelection();
    if (document.hidden || (!marked.isCollapsed && part.contains(marked.anchorNode))) return;
    try {
      const answer = await fetch(part.dataset.part);
      if (!answer.ok) return;
      const html = await answer.text();
      const open = [...part.querySelectorAll("details")].map((each) => each.open);
      const stands = reached(part).indexOf(document.activeElement);
      part.innerHTML = html;
      part.querySelectorAll("details").forEach((each, index) => { each.open = open[index] ?? false; });
      if (stands >= 0) reached(part)[stands]?.focus({ preventScroll: true });
    } catch { /* the server is gone: what is shown stays */ }
  }, 5000);
}

// Something is being made: look again. Without scripts the page's head does it.
if (document.querySelector("[data-waits]")) setTimeout(() => location.reload(), 1500);

// Words while one writes. Without this the page only corrects what was sent.
const words = document.getElementById("words");
if (words) {
  const field = document.getElementById("q");
  let asked = "";
  field.addEventListener("input", async () => {
    const text = asked = field.value;
    if (!/\p{L}{2}$/u.test(text)) return;
    try {
      const answer = await fetch("/api/suggest?q=" + encodeURIComponent(text));
      if (!answer.ok || asked !== text) return;
      words.replaceChildren(...(await answer.json()).completions.map((word) => new Option(word, word)));
    } catch { /* the server is gone */ }
  });
}
