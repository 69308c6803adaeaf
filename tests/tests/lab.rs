//! The page of the lab in Chromium: the same digits as the command, with the keyboard, on a phone,
//! in dark mode. Needs Chromium and the page, so that neither `make` nor `make test` has them.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ferroce_tests::{Scratch, eventually};
use serde_json::{Value, json};

/// Functions that measure a page; the rest of the file is for pages in a frame.
const SCRIPT: &str = include_str!("../browser/measure.js");
const BROWSER: &str = "chromium";
/// Time limit of an answer of the browser, and of a curve.
const LIMIT: Duration = Duration::from_secs(60);
/// Number of sizes up to 128 KiB: longer messages have a separate command line.
const SHORT_SIZES: usize = 17;

/// A page in a browser, which is controlled through a pair of pipes.
struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: Value,
    next: u64,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Opens a page. `None`: there is no browser.
    fn open(scratch: &Scratch, address: &str) -> Option<Self> {
        let pipes = ["to", "from"].map(|name| scratch.path(name));
        Command::new("mkfifo")
            .args(&pipes)
            .status()
            .expect("coreutils");
        // The browser reads from descriptor 3, and writes to descriptor 4.
        let script = "to=$1; from=$2; shift 2; exec \"$@\" 3<\"$to\" 4>\"$from\"";
        let known = Command::new(BROWSER).arg("--version").output().is_ok();
        if !known {
            return None;
        }
        let profile = format!("--user-data-dir={}", scratch.path("profile").display());
        let child = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(&pipes)
            .args([
                BROWSER,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                &profile,
            ])
            .arg("--remote-debugging-pipe")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("there is a shell");
        let mut browser = Self {
            child,
            to: File::create(&pipes[0]).expect("a pipe"),
            from: BufReader::new(File::open(&pipes[1]).expect("a pipe")),
            session: Value::Null,
            next: 0,
        };
        let target = browser.call("Target.createTarget", json!({ "url": address }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", target);
        browser.session = attached["sessionId"].clone();
        Some(browser)
    }

    /// Calls a method of the browser.
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        write!(self.to, "{message}\0").expect("the browser reads");
        loop {
            let mut answer = Vec::new();
            self.from
                .read_until(0, &mut answer)
                .expect("the browser writes");
            assert_eq!(answer.pop(), Some(0), "the browser has ended");
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Evaluates an expression in the page.
    fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    fn text(&mut self, expression: &str) -> String {
        self.value(expression)
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits until the page shows everything that was measured.
    fn wait(&mut self) {
        eventually("a complete page", LIMIT, || {
            self.value("document.body?.dataset.state") == "done"
        });
    }

    fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let code = if key == "ArrowRight" { 39 } else { 9 };
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Sets width and colours, and returns what is wrong with the page then.
    fn problems(&mut self, width: u32, scheme: &str) -> Vec<String> {
        let metrics = json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [feature] }),
        );
        let is_dark = scheme == "dark";
        eventually("a page of this width and these colours", LIMIT, || {
            let dark = "matchMedia('(prefers-color-scheme: dark)').matches";
            self.value(&format!("[innerWidth, {dark}]")) == json!([width, is_dark])
        });
        let functions = SCRIPT.split("\nconst frame").next().expect("functions");
        let frame = "{ contentWindow: window, contentDocument: document }";
        let found = self.value(&format!(
            "(() => {{ {functions}\nreturn measure({frame}); }})()"
        ));
        let lines: Vec<String> = serde_json::from_value(found).expect("lines");
        lines
            .into_iter()
            .filter(|line| line.starts_with("problem"))
            .collect()
    }
}

/// Opens the page with a fragment. `None`, with a note: browser or page are missing.
fn open(scratch: &Scratch, fragment: &str) -> Option<Browser> {
    let missing = |what: &str| {
        eprintln!("\n******** NOT TESTED: the page of the lab in a browser: {what} ********\n");
    };
    let page = scratch.finish(scratch.ferroce(&["lab", "--print"]));
    if !Path::new(page.output.trim()).is_file() {
        missing("no page; `make lab` builds it");
        return None;
    }
    let browser = Browser::open(scratch, &format!("file://{}{fragment}", page.output.trim()));
    if browser.is_none() {
        missing("no chromium here");
    }
    browser
}

/// Returns a figure of each row that a command line of the page prints.
fn figures(scratch: &Scratch, line: &str, column: &str) -> Vec<Value> {
    let words: Vec<&str> = line.split(' ').skip(1).chain(["--json"]).collect();
    let document = scratch.finish(scratch.ferroce(&words)).expect_success();
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let rows = document["rows"].as_array().expect("rows").iter();
    let figure = |row: &Value| row["result"].pointer(column).expect(column).to_string();
    rows.map(|row| figure(row).into()).collect()
}

/// Goal: a browser shows the digits of the command. Method: the page's own command line, run by a
/// shell; the figures of its table.
#[test]
#[ignore = "needs Chromium, and the page of `make lab`"]
fn the_digits_in_the_browser_are_those_of_the_command() {
    for (fragment, column) in [
        (
            "#test=write_bw&preset=cx6-200g@epyc-hdr&set=pcie.lanes=8",
            "/bandwidth/average_gbps",
        ),
        (
            "#test=read_lat&preset=cx5-100g&x=pcie.read_latency_ns&size=64",
            "/latency/typical_us",
        ),
    ] {
        let scratch = Scratch::new();
        let Some(mut browser) = open(&scratch, fragment) else {
            return;
        };
        browser.wait();
        let shown = browser.value(
            "[...document.querySelectorAll('#rows tr')].map((row) => row.cells[1].textContent)",
        );
        let command = browser.text("document.getElementById('command').textContent");
        let mut expected = figures(&scratch, &command, column);
        if browser.value("document.getElementById('long-part').hidden") == false {
            let long = browser.text("document.getElementById('long-command').textContent");
            let all = figures(&scratch, &long, column);
            expected.truncate(SHORT_SIZES);
            expected.extend_from_slice(&all[SHORT_SIZES..]);
        }
        assert_eq!(shown, Value::Array(expected), "{command}");
        let longest =
            browser.value("Math.max(...[...pool.answers.values()].map((answer) => answer.ms))");
        eprintln!("{fragment}: the longest point took {longest} ms");
    }
}

/// Goal: the page can be used with the keyboard, and its address holds the state. Method: move a
/// slider with an arrow key, and open the new address again.
#[test]
#[ignore = "needs Chromium, and the page of `make lab`"]
fn the_keyboard_moves_a_parameter_and_the_link_holds_it() {
    let scratch = Scratch::new();
    let Some(mut browser) = open(&scratch, "#test=write_lat&preset=irdma-10g") else {
        return;
    };
    browser.wait();
    browser.value("document.getElementById('slide-units.count').focus()");
    browser.press("ArrowRight");
    browser.wait();
    let focused = browser.text("document.activeElement.id");
    assert_eq!(focused, "slide-units.count", "it can be moved on");
    let fragment = browser.text("location.hash");
    assert!(fragment.contains("&set=units.count="), "{fragment}");
    let command = browser.text("document.getElementById('command').textContent");
    assert!(command.contains("--set units.count="), "{command}");
    drop(browser);
    let again = Scratch::new();
    let mut browser = open(&again, &fragment).expect("it was there");
    browser.wait();
    let same = browser.text("document.getElementById('command').textContent");
    assert_eq!((browser.text("location.hash"), same), (fragment, command));
}

/// Goal: the page is readable on a phone and in dark mode.
#[test]
#[ignore = "needs Chromium, and the page of `make lab`"]
fn the_page_can_be_read_on_a_phone_and_in_the_dark() {
    let scratch = Scratch::new();
    let Some(mut browser) = open(&scratch, "") else {
        return;
    };
    browser.wait();
    for width in [390, 768, 1280] {
        for scheme in ["light", "dark"] {
            let problems = browser.problems(width, scheme);
            assert!(problems.is_empty(), "{width} px, {scheme}: {problems:#?}");
        }
    }
}
