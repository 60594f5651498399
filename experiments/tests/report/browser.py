"""Opens pages of `handoff report` in headless Chromium and checks what a reader sees and does.

    python browser.py --program target/release/handoff                      # the tests
    python browser.py --program target/release/handoff --screenshots docs   # docs/report-desktop.png and docs/report-phone.png

Needs chromium and chromedriver (Debian: chromium, chromium-driver) and the packages of requirements.txt.
"""

import argparse
import base64
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "results"
WIDTHS_PX = {"phone": 390, "desktop": 1280}
# WCAG 2.2, success criterion 1.4.3: text of normal size.
CONTRAST_MIN = 4.5
# Labels in figures have the colour of their line; criterion 1.4.11, parts of graphics.
FIGURE_CONTRAST_MIN = 3.0
SCREENSHOT_BYTES_MAX = 400_000
XSS = "<script>window.hacked = 1</script><img src=x onerror=window.hacked=2>"

program = None

# Everything that a reader reads: its colour against what lies behind it.
CONTRASTS = """
const channel = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) => 0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const color = parse(getComputedStyle(at).backgroundColor);
    if (color.length < 4 || color[3] > 0) return color;
  }
  return [255, 255, 255];
};
const worst = {};
for (const element of document.querySelectorAll("p, li, td, th, dt, dd, h1, h2, h3, figcaption, summary, label, button, a, code, pre")) {
  if (!element.checkVisibility() || !element.textContent.trim() || element.disabled) continue;
  const [front, back] = [luminance(parse(getComputedStyle(element).color)), luminance(ground(element))];
  const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
  worst[element.tagName] = Math.min(worst[element.tagName] ?? 99, ratio);
}
return worst;
"""

# Text in figures against the figure's own ground, its first rectangle.
FIGURE_CONTRASTS = """
const channel = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
const luminance = (text) => {
  const [r, g, b] = text.match(/[\\d.]+/g).map((value) => channel(Number(value) / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
return [...document.querySelectorAll(".figure svg")].map((svg) => {
  const back = luminance(getComputedStyle(svg.querySelector("rect")).fill);
  const ratios = [...svg.querySelectorAll("text")].map((text) => {
    const front = luminance(getComputedStyle(text).fill);
    return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
  });
  return Math.min(...ratios);
});
"""


def open_browser(profile):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={profile}",
    ]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # With the path given, selenium looks for no driver in the network.
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def handoff(*arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"handoff {' '.join(map(str, arguments))}: {done.stderr}")


def emulate(browser, width_px, scheme, height_px=900):
    metrics = {"width": width_px, "height": height_px, "deviceScaleFactor": 1, "mobile": width_px < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.pages = {"validation": cls.folder / "validation.html", "sweep": cls.folder / "sweep.html"}
        handoff("report", RESULTS / "validate-h200", "--out", cls.pages["validation"])
        handoff("report", RESULTS / "sweep-h200" / "default", "--out", cls.pages["sweep"])
        tiny = ["--every", "1,2,4", "--concurrency", "1,2", "--set", "workload.requests=5", "--set", "workload.output_tokens=32"]
        handoff("sweep", *tiny, "--out", cls.folder / "fresh")
        handoff("report", cls.folder / "fresh")
        cls.pages["fresh"] = cls.folder / "fresh" / "report.html"
        cls.browser = open_browser(cls.folder / "profile")
        cls.addClassCleanup(cls.browser.quit)

    def open(self, name, width_px=WIDTHS_PX["desktop"], scheme="light"):
        emulate(self.browser, width_px, scheme)
        for log in ["browser", "performance"]:
            self.browser.get_log(log)
        self.browser.get(self.pages[name].as_uri())

    def on_every_page(self, check):
        """Runs the check on every page, narrow and wide, light and dark."""
        for name in self.pages:
            for width in WIDTHS_PX.values():
                for scheme in ["light", "dark"]:
                    with self.subTest(page=name, width=width, scheme=scheme):
                        self.open(name, width, scheme)
                        check(name)

    def table(self, number=0):
        return self.browser.find_elements(By.CSS_SELECTOR, "details.rows[open]")[number]

    def column(self, table, name):
        """What the cells of the column show, and the file's own values."""
        script = """
            const [details, name] = arguments;
            const head = [...details.querySelectorAll("thead th")];
            const idx = head.findIndex((th) => th.querySelector("button").firstChild.textContent === name);
            const rows = [...details.querySelectorAll("tbody tr")];
            const data = JSON.parse(details.querySelector("script").textContent).rows;
            return rows.map((row) => [row.cells[idx].textContent, data[row.cells[idx].row][row.cells[idx].column]]);
        """
        return self.browser.execute_script(script, table, name)

    def header(self, table, name):
        for th in table.find_elements(By.CSS_SELECTOR, "thead th"):
            if th.text.split("\n")[0] == name:
                return th
        self.fail(f"no column {name}")

    def sort(self, table, name):
        self.header(table, name).find_element(By.TAG_NAME, "button").click()
        return self.header(table, name).get_attribute("aria-sort")

    def test_nothing_fails_and_nothing_is_loaded(self):
        def check(_):
            self.assertEqual([entry["message"] for entry in self.browser.get_log("browser")], [])
            events = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
            requests = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
            self.assertEqual(requests, [self.browser.current_url])
            self.assertNotIn("Network.loadingFailed", [event["method"] for event in events])

        self.on_every_page(check)

    def test_every_figure_is_visible(self):
        drawn = list((RESULTS / "validate-h200").glob("*/*.svg"))
        self.assertGreater(len(drawn), 2)
        n_figures = {"validation": len(drawn), "sweep": 1, "fresh": 1}
        def check(name):
            boxes = self.browser.execute_script(
                "return [...document.querySelectorAll('.figure svg')].map((svg) => {"
                " const box = svg.getBoundingClientRect(), frame = svg.closest('.scroll').getBoundingClientRect();"
                " return [box.width, box.height, frame.left, frame.right, svg.querySelectorAll('text').length, svg.checkVisibility()]; })"
            )
            self.assertEqual(len(boxes), n_figures[name])
            page_px = self.browser.execute_script("return document.documentElement.clientWidth")
            for width, height, left, right, texts, visible in boxes:
                self.assertTrue(visible)
                self.assertGreater(min(width, height), 200)
                self.assertGreaterEqual(left, 0)
                self.assertLessEqual(right, page_px)
                self.assertGreater(texts, 5)

        self.on_every_page(check)

    def test_the_page_never_scrolls_sideways(self):
        def check(_):
            self.browser.execute_script("for (const details of document.querySelectorAll('details')) details.open = true")
            wide = self.browser.execute_script("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
            self.assertLessEqual(wide[0], wide[1])

        self.on_every_page(check)

    def test_texts_are_readable(self):
        def check(_):
            self.browser.execute_script("for (const details of document.querySelectorAll('details')) details.open = true")
            worst = self.browser.execute_script(CONTRASTS)
            self.assertGreater(len(worst), 8)
            for tag, ratio in worst.items():
                self.assertGreaterEqual(ratio, CONTRAST_MIN, tag)
            for ratio in self.browser.execute_script(FIGURE_CONTRASTS):
                self.assertGreaterEqual(ratio, FIGURE_CONTRAST_MIN, "text in a figure")
            size_px = self.browser.execute_script("return parseFloat(getComputedStyle(document.querySelector('main p')).fontSize)")
            self.assertGreaterEqual(size_px, 15)

        self.on_every_page(check)

    def test_dark_is_dark(self):
        grounds = {}
        for scheme in ["light", "dark"]:
            self.open("sweep", scheme=scheme)
            paper = self.browser.execute_script("return getComputedStyle(document.querySelector('.figure svg rect')).fill")
            body = self.browser.execute_script("return getComputedStyle(document.body).backgroundColor")
            grounds[scheme] = [sum(map(int, text.strip("rgb()").split(","))) for text in [paper, body]]
        self.assertGreater(min(grounds["light"]), 700)
        self.assertLess(max(grounds["dark"]), 100)

    def test_a_header_sorts_by_number(self):
        self.open("sweep")
        table = self.table()
        in_file = self.column(table, "throughput")
        self.assertEqual(self.header(table, "throughput").get_attribute("aria-sort"), "none")
        for direction, is_reversed in [("ascending", False), ("descending", True)]:
            self.assertEqual(self.sort(table, "throughput"), direction)
            values = [float(value) for _, value in self.column(table, "throughput")]
            self.assertEqual(values, sorted(values, reverse=is_reversed))
            every = [float(row["throughput"]) for row in self.rows_of(table)]
            self.assertEqual(values[0], max(every) if is_reversed else min(every), "of all pages, not of the first alone")
        self.assertEqual(self.sort(table, "throughput"), "none")
        self.assertEqual(self.column(table, "throughput"), in_file)
        # Digits that come in another order as text: 1, 128, 16, 2, ...
        self.sort(table, "every")
        self.sort(table, "every")
        self.assertEqual({value for _, value in self.column(table, "every")[:5]}, {"128"})

    def rows_of(self, table):
        document = json.loads(table.find_element(By.TAG_NAME, "script").get_attribute("textContent"))
        names = [column["name"] for column in document["columns"]]
        return [dict(zip(names, row)) for row in document["rows"]]

    def test_filters_leave_the_rows_that_fit(self):
        self.open("sweep")
        table = self.table()
        status = table.find_element(By.CSS_SELECTOR, "[role=status]")
        rows = self.rows_of(table)
        self.assertEqual(status.text, f"1 to 25 of {len(rows)} rows")
        search = table.find_element(By.CSS_SELECTOR, "input[type=search]")
        search.send_keys("small-first")
        fitting = [row for row in rows if row["order"] == "small-first"]
        self.assertEqual({value for _, value in self.column(table, "order")}, {"small-first"})
        self.assertEqual(status.text, f"1 to 25 of {len(fitting)} (of {len(rows)} rows)")
        for label in table.find_elements(By.CSS_SELECTOR, ".tools label"):
            if label.text.startswith("every"):
                label.find_element(By.XPATH, ".//option[text()='16']").click()
        fitting = [row for row in fitting if row["every"] == "16"]
        self.assertEqual(len(self.column(table, "order")), len(fitting))
        self.assertGreater(len(fitting), 1)
        search.send_keys("no such thing")
        self.assertEqual(status.text, f"no row fits ({len(rows)} rows)")
        table.find_element(By.XPATH, ".//button[text()='Reset']").click()
        self.assertEqual(status.text, f"1 to 25 of {len(rows)} rows")
        table.find_element(By.XPATH, ".//button[text()='Next']").click()
        self.assertEqual(status.text, f"26 to 50 of {len(rows)} rows")

    def test_a_value_tells_where_it_comes_from(self):
        self.open("validation")
        table = self.table()
        tip = self.browser.find_element(By.ID, "tip")
        self.assertFalse(tip.is_displayed())
        manifest = json.loads((RESULTS / "validate-h200" / "exclusive" / "manifest.json").read_text())
        # What predictions read, not what the scenario names.
        profile = next(file["sha256"] for file in manifest["files"] if file["path"] == "profile.csv")
        idx = [th.text.split("\n")[0] for th in table.find_elements(By.CSS_SELECTOR, "thead th")].index("measured")
        cell = table.find_elements(By.CSS_SELECTOR, "tbody tr")[3].find_elements(By.TAG_NAME, "td")[idx]
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", cell)
        ActionChains(self.browser).move_to_element(cell).perform()
        self.assertTrue(tip.is_displayed())
        row = self.rows_of(table)[3]
        for text in [f"measured: {row['measured']} tokens/s", "measured throughput, mean over starts", "measured on H200", "rows.csv, row 4",
                     f"placement {row['placement']}", manifest["program"]["commit"], f"profile.csv (sha256 {profile})"]:
            self.assertIn(text, tip.text)
        ActionChains(self.browser).send_keys(Keys.ESCAPE).perform()
        self.assertFalse(tip.is_displayed())
        # By keyboard: the cell takes the focus, arrows walk on.
        self.browser.execute_script("arguments[0].focus()", cell)
        self.assertEqual(cell.get_attribute("aria-describedby"), "tip")
        ActionChains(self.browser).send_keys(Keys.ARROW_LEFT).perform()
        self.assertIn("predicted: ", tip.text)
        self.assertIn("simulated", tip.text)
        box = self.browser.execute_script("const box = arguments[0].getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom]", tip)
        self.assertTrue(box[0] >= 0 and box[1] >= 0 and box[2] <= WIDTHS_PX["desktop"] and box[3] <= 900, box)

    def test_a_closed_table_opens_and_a_command_is_copied(self):
        self.open("validation")
        profile = self.browser.find_element(By.ID, "overlapped/profile.csv")
        self.assertEqual(profile.find_elements(By.TAG_NAME, "td"), [])
        profile.find_element(By.TAG_NAME, "summary").click()
        # The browser tells the page of it a little later.
        WebDriverWait(self.browser, 10).until(lambda _: profile.find_elements(By.TAG_NAME, "td"))
        self.assertEqual(len(self.column(profile, "mean us")), 25)
        button = self.browser.find_element(By.CSS_SELECTOR, "button.copy")
        call = button.find_element(By.XPATH, "..//code").text
        self.assertTrue(call.startswith("handoff validate --scenario h200 "), call)
        button.click()
        WebDriverWait(self.browser, 10).until(lambda _: button.text == "Copied")

    def test_many_rows_are_shown_by_the_page(self):
        folder = self.folder / "many"
        shutil.copytree(self.folder / "fresh", folder)
        rows = [f"row {idx},{idx * 7919 % 10007}" for idx in range(10_000)]
        (folder / "many.csv").write_text("\n".join(["name,number", *rows, ""]))
        handoff("report", folder)
        self.pages["many"] = folder / "report.html"
        self.addCleanup(self.pages.pop, "many")
        self.open("many")
        many = self.browser.find_element(By.ID, "many.csv")
        many.find_element(By.TAG_NAME, "summary").click()
        WebDriverWait(self.browser, 10).until(lambda _: many.find_elements(By.TAG_NAME, "td"))
        status = many.find_element(By.CSS_SELECTOR, "[role=status]")
        self.assertEqual(status.text, "1 to 25 of 10000 rows")
        self.assertEqual(len(many.find_elements(By.CSS_SELECTOR, "tbody tr")), 25)
        self.sort(many, "number")
        self.assertEqual([int(value) for _, value in self.column(many, "number")], sorted(int(row.split(",")[1]) for row in rows)[:25])
        many.find_element(By.CSS_SELECTOR, "input[type=search]").send_keys("row 9999")
        # The number of another row holds the digits too.
        fitting = [row for row in rows if "9999" in row]
        self.assertEqual(status.text, f"{len(fitting)} of 10000 rows")
        self.assertEqual(len(many.find_elements(By.CSS_SELECTOR, "tbody tr")), len(fitting))

    def test_more_columns_can_be_shown(self):
        self.open("fresh")
        table = self.table()
        n_main = len(table.find_elements(By.CSS_SELECTOR, "thead th"))
        table.find_element(By.CSS_SELECTOR, "input[type=checkbox]").click()
        self.assertEqual(len(table.find_elements(By.CSS_SELECTOR, "thead th")), len(self.rows_of(table)[0]))
        self.assertGreater(len(self.rows_of(table)[0]), n_main)

    def test_texts_of_files_do_not_run(self):
        folder = self.folder / "hacked"
        shutil.copytree(self.folder / "fresh", folder)
        (folder / "report.html").unlink()
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["scenario"] = {"name": XSS, "text": f"# </pre>{XSS}"}
        manifest["device"] = XSS
        manifest["command"].append(XSS)
        (folder / "manifest.json").write_text(json.dumps(manifest))
        (folder / "README.md").write_text(f"# Notes\n\n{XSS}\n\n[a link](javascript:window.hacked=3)\n")
        (folder / "extra.csv").write_text(f'name,"{XSS}"\n</script>{XSS},{XSS}\n')
        svg = (folder / "figure.svg").read_text()
        evil = "<script>window.hacked = 4</script><a href='javascript:window.hacked=5'/><title>"
        (folder / "figure.svg").write_text(svg.replace("<title>", evil, 1))
        handoff("report", folder)
        self.pages["hacked"] = folder / "report.html"
        self.addCleanup(self.pages.pop, "hacked")
        self.open("hacked")
        self.assertIsNone(self.browser.execute_script("return window.hacked ?? null"))
        self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, "img, iframe, object, svg script, a[href^=javascript]"), [])
        self.assertEqual([entry["message"] for entry in self.browser.get_log("browser")], [])
        text = self.browser.find_element(By.TAG_NAME, "body").text
        self.assertIn("sweep of <script>window.hacked = 1</script>", text)
        self.assertIn("extra.csv is not listed in manifest.json", text)
        self.assertIn("figure.svg is not the file that manifest.json lists", text)
        cell = self.browser.find_element(By.ID, "extra.csv").find_element(By.CSS_SELECTOR, "tbody td")
        self.assertEqual(cell.text, f"</script>{XSS}")


def screenshots(folder):
    """The page of the H200 validation at two widths: its beginning, and where its first figure and table stand."""
    with tempfile.TemporaryDirectory() as temporary:
        page = Path(temporary) / "page.html"
        handoff("report", RESULTS / "validate-h200", "--out", page)
        browser = open_browser(Path(temporary) / "profile")
        try:
            browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
            for name, height_px in [("desktop", 2480), ("phone", 2900)]:
                for scheme in ["light", "dark"]:
                    emulate(browser, WIDTHS_PX[name], scheme, height_px)
                    browser.get(page.as_uri())
                    image = base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"])
                    suffix = "" if scheme == "light" else "-dark"
                    if scheme == "light" or folder != ROOT / "docs":
                        path = folder / f"report-{name}{suffix}.png"
                        path.write_bytes(image)
                        print(f"{path}: {len(image)} bytes")
                        if len(image) > SCREENSHOT_BYTES_MAX:
                            raise SystemExit(f"{path} is larger than {SCREENSHOT_BYTES_MAX} bytes")
        finally:
            browser.quit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=Path, help="the binary handoff")
    what = "write screenshots instead of running the tests; dark ones too, except into docs"
    parser.add_argument("--screenshots", metavar="DIR", type=Path, help=what)
    arguments, rest = parser.parse_known_args()
    program = arguments.program.resolve()
    if arguments.screenshots:
        screenshots(arguments.screenshots.resolve())
    else:
        unittest.main(argv=[sys.argv[0], *rest])
