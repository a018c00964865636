"""Pages that scripts make: a real Chromium, driven over its DevTools protocol.

options     what the operator may say
devtools    the protocol over two pipes: calls, answers, events
page        one page: opened, fed, waited for, read
browser     the process: found, started, watched, replaced

The browser itself asks nobody: whatever a page wants is handed to an `Asker`, whose answer it gets.
"""
