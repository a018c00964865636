"""Webs: a synthetic web made from one seed, with the truth about itself.

web = Web(preset("tiny"))              what it is: hosts, pages, oddities; pure
web.truth(Policy())                    what a correct crawler fetches of it
WebServer(web)                         serves it, in this event loop
serving(options)                       serves it, in a process of its own
violations(log, ...)                   whether the crawler was polite, as seen by the server
"""

from lycosa.lab.webs.accesses import Access, AccessLog, Politeness, violations
from lycosa.lab.webs.answers import Answer, Expected, Only, Request, Sending
from lycosa.lab.webs.options import KINDS, PRESETS, WebOptions, for_this_machine, preset
from lycosa.lab.webs.server import WebServer
from lycosa.lab.webs.serving import Served, serving
from lycosa.lab.webs.truth import Bound, Policy, Truth, Verdict
from lycosa.lab.webs.web import Web

__all__ = [
    "KINDS",
    "PRESETS",
    "Access",
    "AccessLog",
    "Answer",
    "Bound",
    "Expected",
    "Only",
    "Policy",
    "Politeness",
    "Request",
    "Sending",
    "Served",
    "Truth",
    "Verdict",
    "Web",
    "WebOptions",
    "WebServer",
    "for_this_machine",
    "preset",
    "serving",
    "violations",
]
