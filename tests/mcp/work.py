"""What an agent does, by whatever client calls: a session, an item with its lease, the work, what became of it, the end."""

from datetime import datetime, timezone


async def work(call, item):
    """`call(tool, arguments)` gives the answer, or fails where it is refused; `item` is an id that is free yet."""
    clock = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    await call("board_upsert", {"item": {"id": item, "title": "Something to do", "tags": ["loop"]}, "if_version": 0})
    session = (await call("ars_session_checkin", {"role": "agent", "harness": {"name": "example"}, "clock": clock}))["result"]["session_id"]
    begun = (await call("ars_start", {"session_id": session, "filter": {"id": item}}))["result"]
    assert begun["item"]["id"] == item, begun
    lease = begun["lease"]
    assert lease["resource"] == f"item:{item}", begun
    # A second resource, held beside it and given back.
    acquired = {"session_id": session, "resource": f"path:site:{item}/**"}
    path = (await call("ars_lease_acquire", acquired))["result"]
    assert path["fence"] > lease["fence"], path
    await call("ars_lease_release", {"session_id": session, "lease_id": path["lease_id"], "fence": path["fence"]})
    fenced = {"session_id": session, "fence": lease["fence"]}
    changed = await call("board_upsert", {"item": {"id": item, "status": "active"}, **fenced})
    assert changed["entry"]["by"]["class"] == "seat_key", changed
    resolved = (await call("board_resolve", {"id": item, "outcome": "done", **fenced}))["result"]
    assert resolved["item"]["status"] == "done", resolved
    await call("ars_session_checkout", {"session_id": session, "outcome": "delivered"})
    assert (await call("board_get", {"id": item}))["result"]["item"]["status"] == "done"
