"""Rendering of pages that need scripts: a real Chromium, driven over its DevTools protocol.

options     the operator's options
devtools    the protocol over two pipes: calls, answers, events
page        one page: opening it, answering its requests, waiting for it, reading it
browser     the process: finding, starting, watching and replacing it

The browser itself has no network: each request of a page is passed to an `Asker`, which provides the answer.
"""
