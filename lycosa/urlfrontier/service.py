"""URLFrontier's calls on a `Store`: a gRPC server that StormCrawler and other clients of the interface can use.

    server = Server(store)
    port = await server.start("127.0.0.1:7071")
    await server.stop()

An AckMessage is sent when its URL is durable: all that was put since the last commit is committed together, in a
thread, while more arrives. Other calls that change something are durable when they are answered.

Differences from the reference implementation (crawler-commons/url-frontier 2.6): DeleteQueue of a missing queue
answers 0 and not -1; DeleteCrawl, DeleteQueue and PurgeURLs count URLs that are done, too; delays are
kept to the fraction of a second; SetLogLevel is accepted and changes nothing; there is one node, so `local` is
ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio

from lycosa.urlfrontier.messages import CALLS, MESSAGES, OK, SERVICE, SKIPPED
from lycosa.urlfrontier.store import DEFAULT, Given, Store

_WAITING = 10_000
"""Most URLs of one stream that wait for a commit."""
_QUEUES, _URLS = 100, 100
"""Default sizes of lists."""
_PAUSE = 500
"""Rows after which other tasks get their turn."""


class Commits:
    """Makes a store durable for many callers at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running: asyncio.Task[None] | None = None

    async def durable(self) -> None:
        """Everything that was put before is durable when this returns."""
        if self._running is not None:  # that commit may have begun before the put
            await asyncio.shield(self._running)
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._commit())
        await asyncio.shield(self._running)

    async def _commit(self) -> None:
        batch = self._store.cut()
        if batch is not None:
            await asyncio.to_thread(self._store.write, batch)
            self._store.confirm(batch)


class Server:
    """The service on a port."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        """`clock`: returns seconds since the epoch."""
        self._store = store
        self._clock = clock
        self._commits = Commits(store)
        self._server: Any = None
        self._address = ""

    async def start(self, address: str) -> int:
        """Start listening; returns the port."""
        handlers = {name: self._handler(name, *kinds) for name, kinds in CALLS.items()}
        self._server = grpc.aio.server()  # belongs to the running loop
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        port = int(self._server.add_insecure_port(address))
        self._address = f"{address.rpartition(':')[0]}:{port}"
        await self._server.start()
        return port

    async def stop(self, grace: float = 2.0) -> None:
        await self._server.stop(grace)
        await self._commits.durable()

    def _handler(self, name: str, takes: str, gives: str) -> Any:
        kind = "_".join("stream" if each.startswith("stream ") else "unary" for each in (takes, gives))
        make = getattr(grpc, f"{kind}_rpc_method_handler")
        return make(
            getattr(self, f"_{name}"),
            request_deserializer=MESSAGES[takes.removeprefix("stream ")].FromString,
            response_serializer=MESSAGES[gives.removeprefix("stream ")].SerializeToString,
        )

    # -- URLs

    async def _PutURLs(self, items: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:  # noqa: N802
        def put(item: Any) -> Any:
            known = item.WhichOneof("item") == "known"
            info = item.known.info if known else item.discovered.info
            taken = self._put(info, item.known.refetchable_from_date if known else None)
            return MESSAGES["AckMessage"](ID=item.ID or info.url, status=taken)

        async for ack in self._acked(items, put):
            yield ack

    async def _PutDiscovered(self, batches: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:  # noqa: N802
        def put(batch: Any) -> Any:
            return MESSAGES["BatchAck"](ID=batch.ID, statuses=[self._put(info, None) for info in batch.items])

        async for ack in self._acked(batches, put):
            yield ack

    def _put(self, info: Any, due: int | None) -> int:
        taken = self._store.put(info.crawlID, info.key, info.url, info.SerializeToString(), due)
        return OK if taken else SKIPPED

    async def _acked(self, items: AsyncIterator[Any], put: Callable[[Any], Any]) -> AsyncIterator[Any]:
        """Put the URLs as they arrive; acknowledge each when it is durable."""
        waiting: asyncio.Queue[Any] = asyncio.Queue(_WAITING)

        async def read() -> None:
            try:
                async for item in items:
                    await waiting.put(put(item))
            finally:
                await waiting.put(None)

        reader = asyncio.create_task(read())
        try:
            while True:
                acks = [await waiting.get()]
                while not waiting.empty():
                    acks.append(waiting.get_nowait())
                if acks != [None]:
                    await self._commits.durable()
                for ack in acks:
                    if ack is None:
                        await reader
                        return
                    yield ack
        finally:
            reader.cancel()

    async def _GetURLs(self, asked: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        crawl = (asked.crawlID or DEFAULT) if asked.WhichOneof("item") == "crawlID" else None
        for given in self._store.take(
            *(crawl, asked.key, asked.max_queues, asked.max_urls_per_queue, float(asked.delay_requestable))
        ):
            yield _info(given)

    async def _GetURLStatus(self, asked: Any, context: Any) -> Any:  # noqa: N802
        given = self._store.status(asked.crawlID, asked.key, asked.url)
        if given is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "this frontier has no such URL in that queue")
        assert given is not None
        return _item(given)

    async def _ListURLs(self, asked: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        fits = _filter(asked)
        number, most = 0, asked.size or _URLS
        for row, given in enumerate(self._store.urls(asked.crawlID, asked.key), 1):
            if not row % _PAUSE:
                await asyncio.sleep(0)
            if not fits(given.url):
                continue
            number += 1
            if number > asked.start + most:
                return
            if number > asked.start:
                yield _item(given)

    async def _CountURLs(self, asked: Any, context: Any) -> Any:  # noqa: N802
        count = 0
        if not asked.filter:
            count = sum(len(queue.urls) for queue in self._store.queues(asked.crawlID, asked.key))
        else:
            fits = _filter(asked)
            for row, given in enumerate(self._store.urls(asked.crawlID, asked.key), 1):
                count += fits(given.url)
                if not row % _PAUSE:
                    await asyncio.sleep(0)
        return MESSAGES["Long"](value=count)

    async def _PurgeURLs(self, asked: Any, context: Any) -> Any:  # noqa: N802
        before = int(self._clock()) - asked.days * 86_400
        return await self._removed(asked.crawlID, asked.key, before)

    # -- queues and crawls

    async def _ListQueues(self, asked: Any, context: Any) -> Any:  # noqa: N802
        now = self._clock()
        names = [
            queue.key
            for queue in self._store.queues(asked.crawlID)
            if asked.include_inactive or (queue.active and queue.blocked < now)
        ]
        names = names[asked.start : asked.start + (asked.size or _QUEUES)]
        return MESSAGES["QueueList"](
            values=names, start=asked.start, size=len(names), crawlID=asked.crawlID or DEFAULT
        )

    async def _GetStats(self, asked: Any, context: Any) -> Any:  # noqa: N802
        now = self._clock()
        queues = self._store.queues(asked.crawlID, asked.key)
        return MESSAGES["Stats"](
            size=sum(queue.active for queue in queues),
            inProcess=sum(queue.busy(now) for queue in queues),
            counts={
                "completed": sum(queue.done for queue in queues),
                "active_queues": sum(queue.active > 0 for queue in queues),
            },
            numberOfQueues=len(queues),
            crawlID=asked.crawlID or DEFAULT,
        )

    async def _DeleteQueue(self, asked: Any, context: Any) -> Any:  # noqa: N802
        return await self._removed(asked.crawlID, asked.key) if asked.key else MESSAGES["Long"]()

    async def _DeleteCrawl(self, asked: Any, context: Any) -> Any:  # noqa: N802
        return await self._removed(asked.value, "")

    async def _removed(self, crawl: str, key: str, before: int = 0) -> Any:
        count = self._store.remove(crawl, key, before)
        await self._commits.durable()
        return MESSAGES["Long"](value=count)

    async def _BlockQueueUntil(self, asked: Any, context: Any) -> Any:  # noqa: N802
        return await self._ruled(asked.crawlID, asked.key, "block", asked.time)

    async def _SetDelay(self, asked: Any, context: Any) -> Any:  # noqa: N802
        return await self._ruled(asked.crawlID, asked.key, "delay", asked.delay_requestable)

    async def _SetCrawlLimit(self, asked: Any, context: Any) -> Any:  # noqa: N802
        return await self._ruled(asked.crawlID, asked.key, "limit", asked.limit)

    async def _SetActive(self, asked: Any, context: Any) -> Any:  # noqa: N802
        return await self._ruled("", "", "active", int(asked.state))

    async def _ruled(self, crawl: str, key: str, what: str, value: int) -> Any:
        self._store.rule(crawl, key, what, value)
        await self._commits.durable()
        return MESSAGES["Empty"]()

    async def _GetActive(self, asked: Any, context: Any) -> Any:  # noqa: N802
        return MESSAGES["Boolean"](state=self._store.active)

    async def _ListCrawls(self, asked: Any, context: Any) -> Any:  # noqa: N802
        return MESSAGES["StringList"](values=self._store.crawls)

    async def _ListNodes(self, asked: Any, context: Any) -> Any:  # noqa: N802
        return MESSAGES["StringList"](values=[self._address])

    async def _SetLogLevel(self, asked: Any, context: Any) -> Any:  # noqa: N802
        return MESSAGES["Empty"]()


def _info(given: Given) -> Any:
    """The interface's message for a URL with its metadata."""
    info = MESSAGES["URLInfo"].FromString(given.info)
    info.key, info.crawlID = given.key, given.crawl
    return info


def _item(given: Given) -> Any:
    known = MESSAGES["KnownURLItem"](info=_info(given), refetchable_from_date=given.due)
    return MESSAGES["URLItem"](known=known, creation_date=given.made)


def _filter(asked: Any) -> Callable[[str], bool]:
    """The predicate for the URLs that a list asks for."""
    if asked.ignoreCase:
        sought = asked.filter.lower()
        return lambda url: sought in url.lower()
    return lambda url: asked.filter in url
