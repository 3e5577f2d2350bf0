import pytest

from hoptax.quantity import Quantity, show, value_in


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("100us", 100, "us"), ("100 µs", 100, "us"), ("250ns", 0.25, "us"), ("1.5ms", 1500, "us"), ("2s", 2e6, "us"),
        ("1m", 6e7, "us"), ("1h", 3.6e9, "us"), ("1000/s", 1000, "requests/s"), ("60/m", 1, "requests/s"),
        ("20MiB", 20 * 2**20, "bytes"), ("20MB", 20e6, "bytes"), ("1e3kB", 1e6, "bytes"), ("5%", 0.05, "ratio"),
        ("-10%", -0.1, "ratio"), ("+.5", 0.5, "ratio"), (" 7 ", 7, "ratio"),
    ],
)
def test_quantities_are_read(text, value, unit):
    found = Quantity.parse(text)
    assert (found.value, found.unit) == (pytest.approx(value), unit)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "cannot read the quantity ''"), ("us", "cannot read"), ("1.2.3s", "cannot read"), ("10 20us", "cannot read"),
        ("100parsecs", "unknown unit 'parsecs' in '100parsecs'; the units are ns, us"), ("1MIB", "unknown unit 'MIB'"),
    ],
)
def test_wrong_quantities_are_refused(text, part):
    with pytest.raises(ValueError, match=part):
        Quantity.parse(text)


@pytest.mark.parametrize(
    ("bound", "unit", "value"),
    [("1ms", "us", 1000), ("90%", "ratio", 0.9), (0.9, "ratio", 0.9), ("0.1%", "share", 0.001), (1, "per request", 1),
     (Quantity(3, "us"), "us", 3), ("2KiB", "bytes", 2048)],
)
def test_bounds_are_converted(bound, unit, value):
    assert value_in(bound, unit) == pytest.approx(value)


@pytest.mark.parametrize(
    ("bound", "unit", "error", "part"),
    [
        (100, "us", ValueError, "p50 is a time, and 100 has no unit of it; write for example '100us'"),
        ("100", "us", ValueError, "'100' has no unit of it"),
        ("20MiB", "us", ValueError, "p50 is a time, and '20MiB' is a size"),
        ("5%", "bytes", ValueError, "p50 is a size, and '5%' has no unit of it; write for example '20MiB'"),
        ("1ms", "ratio", ValueError, "'1ms' is a time"),
        (None, "us", TypeError, "cannot compare p50 with None"),
        (True, "ratio", TypeError, "cannot compare p50 with True"),
        (float("nan"), "ratio", ValueError, "it is not a number"),
    ],
)
def test_bounds_of_another_kind_are_refused(bound, unit, error, part):
    with pytest.raises(error) as raised:
        value_in(bound, unit, "p50")
    assert part in str(raised.value)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (72.34, "us", "72.3 µs"), (0.5, "us", "0.5 µs"), (1234, "us", "1.23 ms"), (2_500_000, "us", "2.5 s"),
        (-32.4, "us", "−32.4 µs"), (0, "us", "0 µs"), (12345, "requests/s", "12,345/s"), (0.8834, "ratio", "88.3 %"),
        (1536, "bytes", "1.5 KiB"), (20 * 2**20, "bytes", "20 MiB"), (512, "bytes", "512 B"), (2.0, "per request", "2"),
        (float("inf"), "us", "∞ µs"), (1000, "us", "1 ms"), (100, "us", "100 µs"),
    ],
)
def test_quantities_are_shown(value, unit, text):
    assert show(value, unit) == text
