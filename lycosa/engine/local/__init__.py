"""The engine of one machine: streams and keys of one run of a crawl, kept by its supervisor; no service, no files.

`LocalServer` keeps streams and keys in memory (as `memory` does) in a thread with an event loop of its own, so that
other work of its process does not delay the agents. Every client has one connection to it, one side of a pair of
sockets: `connect` makes the pair, and the other side may be passed to another process.

    frame    := length:u32le body
    body     := msgpack [id, operation, arguments]       client to server; each is answered, but for id 0
                msgpack [id, outcome, value]             its answer; outcome "" is done
                msgpack [-n, subject, data]              server to client: a question, answered by
                msgpack [0, "said", [n, data or nil]]

**Guarantees.** All that `protocol` says, for the life of the server, which is one run of the crawl. When a client
dies, only its answering of requests is lost; the server notices at once, by the end of the connection. When the
server ends, everything in it is gone, and the next one begins empty: what agents of one machine exchange is in
their logs, and each run begins from there. Only sequences must not be reused, since logs name them: a server is
told the sequence to begin after (`after`).

Streams are bounded (`StreamPlan.bytes`), and so is the memory. Frames written in one step of an event loop are sent
in one piece, and waiting calls are answered once the whole of a received piece is processed: links go in batches,
and a batch costs about as much as a message. A client's request to itself is answered without the server.
"""
