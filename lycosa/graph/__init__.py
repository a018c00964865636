"""Graph: who links to whom?

    bits, bv_format, bv, bv_writer   the BV format: codes of integers, files, reading, writing
    urls                             URLs by number
    gather, sorting, build, store    from a crawl's log to a graph on disk
    connectivity                     asking it
    pagerank, stats                  who matters, and what the graph is like
    exchange                         to and from other tools

Modules that end in `kernels` are compiled by Numba; `bits` and `bv_plain` are their plain references.
"""
