"""The crawl in a browser, and over HTTP for programs; see `lycosa.serve.app`."""
