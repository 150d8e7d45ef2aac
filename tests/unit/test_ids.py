"""Ids: ordered by time, except where ordered keys would all hit one range of a cluster."""

from corndog.service.ids import id_maker


def test_ids_are_ordered_on_postgresql() -> None:
    make = id_maker(is_cockroach=False)
    ids = [make() for _ in range(1000)]
    assert {made.version for made in ids} == {7}
    assert sorted(ids) == ids
    assert len(set(ids)) == 1000


def test_ids_are_spread_on_cockroachdb() -> None:
    make = id_maker(is_cockroach=True)
    ids = [make() for _ in range(1000)]
    assert {made.version for made in ids} == {4}
    assert len({made.bytes[0] for made in ids}) > 100
