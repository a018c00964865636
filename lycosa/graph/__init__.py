"""Graph: the link graph of a crawl.

    bits, bv_format, bv, bv_writer   the BV format: codes of integers, files, reading, writing
    urls                             URLs by number
    gather, sorting, build, store    from a crawl's log to a graph on disk
    connectivity                     queries
    pagerank, stats                  ranks and statistics
    exchange                         import from and export to other tools

Modules that end in `kernels` are compiled by Numba; `bits` and `bv_plain` are their plain references.
"""
