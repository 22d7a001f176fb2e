"""The report page in a headless Chromium, with data that serialize/report/page/testing makes."""

import base64
import functools
import hashlib
import pathlib
import re
import zlib

import numpy
import pytest

from serialize.report.page.testing import make_synthetic
from serialize.report.page.testing.browser import CHROMIUM, Browser
from serialize.report.page.testing.report_data import PAGE, Report, pyramid

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
ROOT = pathlib.Path(__file__).resolve().parents[3]
VIEWS = (
    "summary steps apis configs shapes modules lines tree timeline memory coverage numbers sources"
).split()


@pytest.fixture(scope="module")
def browser():
    with Browser() as started:
        yield started


@functools.cache
def made(kind):
    return make_synthetic.MAKERS[kind]().page()


@pytest.fixture
def show(browser, tmp_path):
    """Opens a page; at the end nothing may have gone wrong in it."""
    pages = []

    def opened(page, **options):
        path = tmp_path / f"{len(pages)}.html"
        path.write_text(page if page.startswith("<!DOCTYPE") else made(page), encoding="utf-8")
        pages.append(browser.open(path, **options))
        return pages[-1]

    yield opened
    for page in pages:
        assert page.problems() == []
        page.close()


def rows(page):
    """The texts of the rows in sight, from the top."""
    return page.run(
        "[...document.querySelectorAll('.grid-row:not([hidden])')]"
        ".filter(row => row.getBoundingClientRect().bottom > 0)"
        ".map(row => row.querySelector('.text .cell-text').textContent)"
    )


def column(page, title):
    """The cells in sight of the column with this title."""
    titles = page.texts(".grid-head > div")
    place = [re.sub(" [▾▴]$", "", each) for each in titles].index(title)
    cells = f"document.querySelectorAll('.grid-row:not([hidden]) > :nth-child({place + 1})')"
    return page.run(f"[...{cells}].map(cell => cell.textContent)")


def milliseconds(text):
    number, _, unit = text.partition(" ")
    return float(number) * {"": 1, "ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}[unit]


def search(page, text):
    page.click(".view .search")
    page.run("document.querySelector('.view .search').select()")
    page.key("Backspace")
    page.type(text)


def choose(page, facet, value):
    """Opens a facet and clicks one of its values."""
    button = (
        f"[...document.querySelectorAll('.drop')].find(b => b.textContent.startsWith('{facet}'))"
    )
    page.run(f"{button}.id = 'wanted'")
    page.click("#wanted")
    label = "[...document.querySelectorAll('.panel:popover-open label')]"
    page.run(f"{label}.find(l => l.textContent.startsWith('{value}')).id = 'value'")
    page.click("#value")
    page.run("document.getElementById('value').id = ''; document.getElementById('wanted').id = ''")
    page.key("Escape")


def test_the_page_is_built_from_its_sources():
    digest = hashlib.sha256()
    for path in sorted((PAGE.parent / "src").iterdir(), key=lambda path: path.name):
        digest.update(path.name.encode() + b"\n" + path.read_bytes())
    assert digest.hexdigest() in PAGE.read_text(encoding="utf-8").splitlines()[1], "npm run build"


def test_its_policy_has_the_hashes_of_its_script_and_style():
    page = PAGE.read_text(encoding="utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search("https?://(?!www.w3.org)", page)


def test_the_example_of_its_description():
    text = (ROOT / "docs/internals/REPORT_DATA.md").read_text(encoding="utf-8")
    lines = re.findall("^((?:[0-9a-f]{2} )+) {4}", text, re.M)
    assert len(lines) == 4
    report = Report(name="example")
    report.block("apis", [("text", ["torch.abs", "torch.add"]), ("calls", [3, 300])])
    packed = base64.b64decode(report.blocks["apis"])
    assert zlib.decompress(packed, -15) == bytes.fromhex("".join(lines))
    assert str(report.head["blocks"]["apis"]).replace("'", '"') in text


def test_every_view_opens(show):
    page = show("small")
    assert page.run("document.title") == "runs/first - torchtrace"
    links = page.run("[...document.querySelectorAll('nav a')].map(link => link.hash.slice(1))")
    assert links == VIEWS
    for view in VIEWS:
        page.click(f"nav a[href='#{view}']")
        page.wait(f"document.documentElement.dataset.ready === '{view}'")
        assert page.texts("nav [aria-current]")
        assert page.run("document.querySelector('main').innerText.length") > 0, view


def test_summary(show):
    page = show("small")
    page.wait("document.querySelector('.bars li')")
    text = page.run("document.querySelector('main').innerText")
    for part in (
        "10,000",
        "train.py --lr 0.1",
        "torch 2.13.0",
        "Complete",
        "Left out of this page",
    ):
        assert part in text
    assert "12 configs, 30 calls" in text
    # A bar leads to its row.
    name = page.text(".bars .name")[1:]
    page.click(".bars button")
    page.wait("document.documentElement.dataset.ready === 'apis'")
    page.settle()
    assert page.text(".grid-row[aria-selected=true] .text .cell-text").endswith(name)


def test_a_header_sorts(show):
    page = show("small", anchor="#configs")
    times = [milliseconds(text) for text in column(page, "self")]
    assert times == sorted(times, reverse=True)
    assert page.texts("[aria-sort=descending]") == ["self ▾"]
    page.run("[...document.querySelectorAll('.grid-head button')].at(-1).id = 'name'")
    page.click("#name")
    names = [text[1:] for text in rows(page)]
    assert names == sorted(names)
    page.click(".grid-head .text button")
    page.settle()
    assert [text[1:] for text in rows(page)][0] > names[-1]
    page.click(".grid-head button")
    calls = [int(text.replace(",", "")) for text in column(page, "calls")]
    assert calls == sorted(calls, reverse=True)


def test_search(show):
    page = show("small", anchor="#configs")
    search(page, "LAYER bfloat16")
    found = rows(page)
    assert found
    assert all("layer" in text.lower() and "bfloat16" in text for text in found)
    assert page.texts(".grid-row:not([hidden]) mark")
    assert re.match(r"\d+ of 112 configs · ", page.text(".status"))
    search(page, "/^torch.*float16/")
    assert rows(page)
    assert all(text[1:].startswith("torch") and "float16" in text for text in rows(page))
    search(page, "/(/")
    assert "not a regular expression" in page.text(".status")
    search(page, "no such text")
    assert rows(page) == []
    assert page.run("document.querySelector('.grid-none').checkVisibility()")
    page.run("document.querySelector('.view .toolbar > button:last-child').id = 'clear'")
    page.click("#clear")
    assert page.text(".status").startswith("112 configs")


def test_facets(show):
    page = show("small", anchor="#configs")
    choose(page, "dtype", "bfloat16")
    assert all('"bfloat16"' in text for text in rows(page))
    assert page.text(".drop.on") == "dtype: bfloat16"
    choose(page, "Level", "1 function")
    assert all(text.startswith("1torch.") and "bfloat16" in text for text in rows(page))
    # Percentages are of what the facets leave.
    assert column(page, "self %")
    choose(page, "dtype", "float32")
    assert {re.search(r'"(\w+)"', text)[1] for text in rows(page)} == {"bfloat16", "float32"}


def test_details_lead_on(show):
    page = show("small", anchor="#apis")
    search(page, "aten::addmm")
    page.click(".grid-row")
    assert page.text(".detail .full") == "aten::addmm"
    assert "Level2 dispatch" in page.text(".detail dl")
    page.click(".detail .actions button")
    page.wait("document.documentElement.dataset.ready === 'configs'")
    page.settle()
    assert len(rows(page)) == 7
    assert all("aten::addmm(" in text for text in rows(page))
    page.run("history.back()")
    page.wait("document.documentElement.dataset.ready === 'apis'")


def test_keys_in_a_table(show):
    page = show("small", anchor="#configs")
    page.key("/")
    assert page.run("document.activeElement.className") == "search"
    page.type("aten")
    page.key("ArrowDown")
    chosen = "document.querySelector('[aria-selected=true]').getAttribute('aria-rowindex')"
    assert page.run(chosen) == "2"
    page.key("ArrowDown")
    assert page.run(chosen) == "3"
    assert page.run("document.activeElement.getAttribute('aria-activedescendant')").endswith("-1")
    page.key("End")
    count = int(page.run("document.querySelector('.grid').getAttribute('aria-rowcount')"))
    assert page.run(chosen) == str(count)
    page.key("Home")
    assert page.run(chosen) == "2"
    page.key("Escape")
    assert page.run("document.querySelector('.detail').hidden")
    page.key("]")
    page.wait("document.documentElement.dataset.ready === 'shapes'")
    page.key("?")
    assert page.run("document.querySelector('dialog').open")
    page.click("dialog button")
    assert not page.run("document.querySelector('dialog').open")


def test_many_rows_scroll_to_their_ends(show):
    count = 1_000_000
    texts = [f"row {i:07}" for i in range(count)]
    report = Report(name="many", calls=1)
    report.table("apis", texts, {"calls": list(range(count))}, sort=None)
    page = show(report.page(), anchor="#apis")
    assert rows(page)[0] == texts[0]
    page.wheel(".grid-scroll", 260)
    assert rows(page)[0] == texts[10]
    page.run("document.querySelector('.grid-scroll').scrollTop = 1e9")
    page.settle()
    assert rows(page)[-1] == texts[-1]
    page.wheel(".grid-scroll", -260)
    assert rows(page)[-1] in texts[-12:-8]
    assert page.run("document.querySelectorAll('.grid-row').length") < 100
    page.click(".grid-head button")
    assert column(page, "calls")[0] == "999,999"
    page.run("document.querySelector('.grid').focus()")
    page.key("End")
    assert rows(page)[-1] == texts[0]
    search(page, "0999")
    assert all("0999" in text for text in rows(page))
    assert page.text(".status").startswith("1,300 of 1,000,000")


def test_call_tree(show):
    page = show("small", anchor="#tree")
    search(page, "encoder")
    assert re.match(r"4 paths, .* %$", page.text(".toolbar .dim[role=status]"))
    page.key("Enter")
    detail = page.text(".flame-detail")
    assert detail.startswith("encoder (Encoder) ")
    assert "level 3 (frame)" in detail
    # In its parent a module has its own part of the name.
    page.run("document.querySelector('.flame-scroll').focus()")
    page.key("ArrowDown")
    assert page.text(".flame-detail").startswith("encoder.layers (ModuleList) ")
    assert page.text(".flame-detail .dim").endswith("encoder (Encoder) › .layers (ModuleList)")
    page.key("ArrowUp")
    page.key("Escape")
    before = page.run("document.querySelector('.flame-scroll canvas').toDataURL()")
    page.click(".toolbar [aria-pressed]")
    assert page.run("document.querySelector('.flame-scroll canvas').toDataURL()") != before
    page.run(
        "const box = document.querySelectorAll('.toolbar select')[1];"
        "box.value = 'allocated_bytes'; box.dispatchEvent(new Event('change'))"
    )
    assert "B" in page.text(".flame-detail p")


def test_a_page_of_a_tree_alone(show):
    report = Report(name="flames")
    nodes = [
        (-1, report.label("all")),
        (0, report.label("torch.add", 1)),
        (1, report.label("aten::add", 2)),
    ]
    report.tree("api", nodes, {"self_ns": [0, 10, 30], "calls": [0, 1, 1]})
    page = show(report.page())
    assert page.run("document.documentElement.dataset.ready") == "tree"
    assert page.run("document.querySelector('nav')") is None
    search(page, "aten")
    assert page.text(".toolbar .dim[role=status]") == "1 path, 30 ns, 75.0 %"


def test_a_trace_without_times(show):
    report = Report(name="counted", calls=9, apis=2, program=["a.py"], by_level=[])
    report.table("apis", ["torch.abs", "torch.add"], {"calls": [2, 7]})
    report.tree(
        "api", [(-1, report.label("all")), (0, report.label("torch.add", 1))], {"calls": [0, 7]}
    )
    page = show(report.page(), anchor="#%E0")
    page.wait("document.querySelector('.bars li')")
    assert page.texts(".bars li") == ["torch.add777.8 %", "torch.abs222.2 %"]
    assert "Timeline" in page.text("main")  # why it isn't there
    page.go("apis")
    assert rows(page) == ["torch.add", "torch.abs"]
    page.go("tree")
    search(page, "add")
    assert page.text(".toolbar .dim[role=status]") == "1 path, 7 calls, 100 %"


def test_timeline(show):
    page = show("small", anchor="#timeline")
    search(page, "aten::mm")
    found = re.match(r"(\d+) calls", page.text(".toolbar .dim[role=status]"))
    assert int(found[1]) > 0
    starts = []
    for _ in range(3):
        page.key("Enter")
        detail = page.text(".flame-detail")
        assert detail.startswith("aten::mm ")
        starts.append(milliseconds(re.search(r"at (\S+ \w+)", detail)[1]))
    assert starts == sorted(starts)
    page.run("document.querySelector('.flame-scroll').focus()")
    picture = "document.querySelector('.flame-scroll canvas').toDataURL()"
    for key in ("+", "ArrowRight", "-", "0"):
        before = page.run(picture)
        page.key(key)
        assert page.run(picture) != before, key
    page.wheel(".flame-scroll canvas", -100, modifiers=2)
    assert page.run(picture) != before


@pytest.mark.parametrize("budget", [1, 2000, 10**6])
def test_each_level_of_a_timeline_has_all_calls(budget):
    """A level, the coarser ones and what the level has merged are all calls."""
    random = numpy.random.default_rng(2)
    count = 5000
    track = {
        "start": random.integers(0, 10**7, count),
        "duration": numpy.exp(random.normal(7, 3, count)).astype("i8") + 1,
        "depth": random.integers(0, 4, count),
        "label": random.integers(0, 9, count),
    }
    (levels,) = pyramid([track], 10**7, budget)
    rows = 0
    for i, (bin_ticks, calls, merged) in enumerate(levels):
        coarser = sum(len(each["start"]) for _, each, _ in levels[i:])
        assert coarser + merged["count"].sum() == count
        assert all(calls["duration"] >= bin_ticks)
        assert i == 0 or all(levels[i - 1][1]["duration"] < bin_ticks)
        for items in (calls, merged):
            assert all(numpy.diff(items["start"]) >= 0)
        rows += len(calls["start"]) + len(merged["start"])
    assert rows <= budget or len(levels) == 1
    assert levels[0][2]["count"].sum() == 0 or budget < 10**6


def test_steps_and_memory_have_charts(show):
    page = show("small", anchor="#steps")
    x, y = page.place("canvas.chart")
    page.click((x, y))
    assert page.text(".detail .full") in {str(step) for step in range(28, 33)}
    assert "long: step 10" in page.text("footer")
    page.go("memory")
    assert re.match(r"cpu of main-1peak \d\.\d\d MB", page.text("main"))
    filled = (
        "(() => { const c = document.querySelector('canvas.chart'); const d = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; return d.some(value => value > 0) })()"
    )
    assert page.run(filled)


def test_numbers_coverage_and_source(show):
    page = show("small", anchor="#numbers")
    assert page.text(".bad-box h2") == "Call 37 aten::log in Gate_0 made the first NaN"
    assert column(page, "NaN")[0] == "1"
    page.go("coverage")
    choose(page, "Called", "never")
    assert set(column(page, "calls")) == {"0"}
    page.go("lines")
    search(page, "train.py:31")
    page.click(".grid-row")
    page.click(".detail .actions button")
    page.wait("document.documentElement.dataset.ready === 'sources'")
    assert page.text(".code-line.chosen code") == "line = 30"


def test_two_traces(show):
    page = show("two")
    text = page.run("document.querySelector('main').innerText")
    assert "×1.30" in text
    page.go("apis")
    titles = page.texts(".grid-head > div")
    for title in ("calls A", "calls B", "self A", "self B", "B − A ▾"):
        assert title in titles
    assert re.search(r"calls \d+ → \d+ · self .* → ", page.text(".status"))
    differences = column(page, "B − A")
    assert any(text.startswith("+") for text in differences)
    choose(page, "Change", "only in B")
    assert set(column(page, "calls A")) == {"0"}
    page.go("tree")
    search(page, "aten")
    page.key("Enter")
    assert re.search(r"→ .*(%|only [AB])", page.text(".flame-detail"))
    for view in ("steps", "configs", "timeline", "memory"):
        page.go(view)


@pytest.mark.parametrize("kind", ["hostile", "hostile_two"])
def test_texts_of_a_trace_are_only_texts(show, kind):
    page = show(kind)
    for view in VIEWS:
        page.go(view)
        assert page.run("document.querySelectorAll('img, iframe, svg, object, link').length") == 0
        assert page.run("document.querySelectorAll('script:not([type])').length") == 1
        # No text on the page may have control characters, or turn the order of what follows.
        unseen = "[\0-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\ufeff]"
        assert not re.search(unseen, page.text("main")), view
        assert page.run("document.documentElement.scrollWidth <= innerWidth"), view
        if view in ("steps", "apis", "configs", "coverage"):
            page.click(".grid-row")
            assert page.run("document.querySelector('.detail').checkVisibility()")
            for i in range(len(page.texts(".drop"))):
                page.run(f"document.querySelectorAll('.drop')[{i}].click()")
                page.settle()
                assert not re.search(unseen, page.text(".panel:popover-open"))
                assert page.run(
                    "(panel => panel.scrollWidth <= panel.clientWidth)"
                    "(document.querySelector('.panel:popover-open'))"
                )
                page.key("Escape")
    assert page.run("document.title").startswith("</script><script>document.title='owned'</script>")
    assert page.run("window.owned") is None
    page.go("apis")
    search(page, "u202e")
    search(page, "javascript")
    assert rows(page)[0].endswith("javascript:alert(1)")
    page.go("configs")
    search(page, "*.*+?^${}()|[]\\")
    assert rows(page)
    search(page, "")
    page.go("tree")
    search(page, "<script>")
    page.key("Enter")
    assert "<script>" in page.text(".flame-detail")


def test_an_injected_script_does_not_run(show, browser, tmp_path):
    path = tmp_path / "injected.html"
    path.write_text(
        made("small").replace(
            "<noscript>", "<script>window.owned = 1</script><img src=x><noscript>"
        )
    )
    page = browser.open(path)
    assert page.run("window.owned") is None
    found = "\n".join(page.problems())
    assert "Content Security Policy" in found
    page.close()


def test_a_newer_version_says_so(browser, tmp_path):
    report = make_synthetic.small()
    report.head["version"] = 2
    path = tmp_path / "newer.html"
    path.write_text(report.page())
    page = browser.open(path, wait="document.querySelector('[role=alert]')")
    assert "newer version" in page.text("[role=alert]")
    page.close()


def test_narrow_and_wide_pages_fit(show):
    page = show("small", width=900, height=700)
    for width in (900, 600, 1600):
        page.size(width, 700)
        for view in VIEWS:
            page.go(view)
            assert page.run("document.documentElement.scrollWidth <= innerWidth"), (width, view)
            header = page.run(
                "[...document.querySelectorAll('.grid-head button')]"
                ".filter(b => b.scrollWidth > b.clientWidth + 1).map(b => b.textContent)"
            )
            assert header == [], (width, view)


def contrast(first, second):
    def light(color):
        parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
        parts = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    more, less = sorted((light(first), light(second)), reverse=True)
    return (more + 0.05) / (less + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_contrast(show, dark):
    page = show("two", dark=dark)
    names = ["back", "box", "faint", "bar", "mark", "text", "dim", "accent", "more", "good"]
    page.run("document.body.append(document.createElement('p'))")
    of = "getComputedStyle(document.body.lastChild).color"
    colors = {
        name: page.run(f"document.body.lastChild.style.color = 'var(--{name})'; {of}")
        for name in names
    }
    for text in ("text", "dim", "accent", "more", "good"):
        for back in ("back", "box", "faint"):
            assert contrast(colors[text], colors[back]) >= 4.5, (text, back)
    for back in ("bar", "mark"):
        assert contrast(colors["text"], colors[back]) >= 4.5, back
    page.go("apis")
    shown = page.run("getComputedStyle(document.body).backgroundColor")
    page.run("[...document.querySelectorAll('header button')].at(-1).id = 'theme'")
    page.click("#theme")
    assert page.run("getComputedStyle(document.body).backgroundColor") != shown


def test_it_prints(show, tmp_path):
    page = show("small", anchor="#configs")
    page.pdf(tmp_path / "page.pdf")
    data = pathlib.Path(tmp_path / "page.pdf").read_bytes()
    assert data.startswith(b"%PDF")
    # All 112 rows, and no empty sheets.
    assert 2 <= len(re.findall(rb"/Type /Page\b", data)) <= 6
