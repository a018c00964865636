// Keeps a page current: numbers by server-sent events, larger parts by asking for them anew. Pages work without it.
"use strict";

const values = document.querySelectorAll("[data-value]");
if (values.length) {
  const events = new EventSource("/events");
  events.onmessage = (event) => {
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

for (const part of document.querySelectorAll("[data-part]")) {
  setInterval(async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(part.dataset.part);
      if (answer.ok) part.innerHTML = await answer.text();
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
