"""The engine of one machine: what one run of a crawl has, kept by its supervisor; no service, no files.

`LocalServer` keeps streams and keys in memory (as `memory` does) in a thread with an event loop of its own, so that
nothing which its process does holds up the agents. Every client has one connection to it, one side of a pair of
sockets: `connect` makes the pair, and the other side may be handed down to another process.

    frame    := length:u32le body
    body     := msgpack [id, operation, arguments]       client to server; each is answered, but for id 0
                msgpack [id, outcome, value]             its answer; outcome "" is done
                msgpack [-n, subject, data]              server to client: a question, answered by
                msgpack [0, "said", [n, data or nil]]

**What it promises.** All that `protocol` says, for as long as the server lives, and that is one run of the crawl. A
client that dies takes nothing with it but its answering; the server sees it at once, by the end of the connection.
When the server ends, everything in it is gone, and the next one begins empty: what agents of one machine tell each
other is in their logs, and each run begins from there. Only sequences must not be used again, since logs name them:
a server is told where to begin (`after`).

Streams are bounded (`StreamPlan.bytes`), so the memory is. What is said in one step of an event loop goes out in
one piece, and whoever waits for something is answered when all of a piece was heard: links go in batches, and a
batch costs about as much as a message. A client that is asked by itself answers without the server.
"""
