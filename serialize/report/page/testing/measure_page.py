"""Prints how long a large page takes to open, sort, search and scroll.

python3 -m serialize.report.page.testing.make_synthetic large large.html
python3 -m serialize.report.page.testing.measure_page large.html
"""

import os
import sys
import time

from serialize.report.page.testing.browser import Browser

DONE = """
  await new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));
  while (document.querySelector('[aria-busy]')) await new Promise(done => setTimeout(done, 5));
"""
FRAMES = """(async () => {{
  const times = [];
  for (let i = 0, last = performance.now(); i < 120; ++i) {{
    {act};
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
  }}
  times.sort((a, b) => a - b);
  return [times[60], times[114], times[119]].map(ms => ms.toFixed(1) + ' ms').join(' ');
}})()"""


def main(path):
    with Browser() as browser:
        page = browser.open(path, 1600, 900)
        print(f"{os.path.getsize(path) / 1e6:.1f} MB")
        print(f"summary  {page.opened_s:.2f} s")

        def timed(name, act):
            script = (
                f"const from = performance.now(); {act}; {DONE} return performance.now() - from"
            )
            print(f"{name:<16} {page.run('(async () => {' + script + '})()'):.0f} ms")

        for view in ("configs", "tree", "timeline"):
            began = time.monotonic()
            page.go(view)
            print(f"{view:<16} {time.monotonic() - began:.2f} s")
        keys = "+" * 40 + "-" * 80
        act = f"""document.querySelector('.flame-scroll').dispatchEvent(
            new KeyboardEvent('keydown', {{key: '{keys}'[i]}}))"""
        print("timeline frames  p50, p95, most:", page.run(FRAMES.format(act=act)))
        page.go("configs")
        timed("sort", "document.querySelector('.grid-head button').click()")
        for text in ("layer_norm", "bfloat16 64", "/linear_1[0-3].*float/", ""):
            typed = f"""const search = document.querySelector('.search'); search.value = {text!r};
                search.dispatchEvent(new Event('input'));
                await new Promise(done => setTimeout(done, 210))"""
            timed(f"search {text}", typed)
        act = "document.querySelector('.grid-scroll').scrollTop += i % 10 === 9 ? 400000 : 300"
        print("scroll frames    p50, p95, most:", page.run(FRAMES.format(act=act)))


if __name__ == "__main__":
    main(sys.argv[1])
