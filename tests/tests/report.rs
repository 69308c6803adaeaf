//! The pages of `ferroce report` in a browser: readable on a phone, in dark mode, and without
//! horizontal scrolling. Needs Chromium, which `make test` does not install because it is large.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferroce_tests::Scratch;

/// The script that runs in the browser.
const SCRIPT: &str = include_str!("../browser/measure.js");
/// Widths of a phone, a tablet and a screen, in CSS pixels.
const WIDTHS: [u32; 3] = [360, 768, 1280];
/// Names of the browser.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn browser() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folders: Vec<_> = std::env::split_paths(&folders).collect();
    let paths = BROWSERS.iter().flat_map(|name| {
        let joined = folders.iter().map(move |folder| folder.join(name));
        joined.collect::<Vec<_>>()
    });
    paths.into_iter().find(|path| path.is_file())
}

/// Returns a page that shows another page in a frame of this width, with a script that measures it.
fn wrapped(page: &str, width: u32) -> String {
    let text = page
        .replace('\\', "\\\\")
        .replace('`', "\\`")
        .replace("${", "\\${")
        .replace("</script", "<\\/script");
    format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><pre></pre>\
         <iframe width=\"{width}\" height=\"3000\" style=\"border:0\"></iframe>\
         <script>{SCRIPT}\nframe.srcdoc = `{text}`;</script>"
    )
}

/// Returns the findings of the browser, one per line.
fn measured(scratch: &Scratch, browser: &Path, page: &str, width: u32, dark: bool) -> Vec<String> {
    let file = scratch.path("wrapped.html");
    fs::write(&file, wrapped(page, width)).expect("ours");
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1400,3000",
        "--virtual-time-budget=10000",
        "--dump-dom",
    ]);
    let profile = scratch.path("profile");
    command.arg(format!("--user-data-dir={}", profile.display()));
    if dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    command.arg(format!("file://{}", file.display()));
    let output = scratch.finish(command).expect_success();
    let (_, rest) = output.split_once("<pre>").expect("the page has its place");
    let (found, _) = rest.split_once("</pre>").expect("and its end");
    found.lines().map(str::to_owned).collect()
}

/// Fails the test unless a page is readable at each width, in light and dark mode.
fn expect_readable(scratch: &Scratch, browser: &Path, page: &Path) {
    let text = fs::read_to_string(page).expect("it was written");
    for width in WIDTHS {
        for dark in [false, true] {
            let found = measured(scratch, browser, &text, width, dark);
            let what = format!("{}, {width} px, dark: {dark}", page.display());
            assert!(
                found.contains(&format!("dark: {dark}")),
                "{what}: {found:?}"
            );
            let texts = found.iter().find_map(|line| line.strip_prefix("texts: "));
            let texts: u32 = texts.and_then(|text| text.parse().ok()).unwrap_or(0);
            assert!(texts > 30, "{what}: {found:?}");
            let problems: Vec<_> = found
                .iter()
                .filter(|line| line.starts_with("problem"))
                .collect();
            assert!(problems.is_empty(), "{what}: {problems:#?}");
        }
    }
}

/// Makes a page with these options.
fn page(scratch: &Scratch, options: &[&str]) -> PathBuf {
    let folder = scratch.path("report");
    let out = folder.to_str().expect("plain");
    let arguments = [&["report", "--out", out, "--quiet"], options].concat();
    let output = scratch.finish(scratch.ferroce(&arguments)).expect_success();
    assert_eq!(output, "", "--quiet");
    folder.join("index.html")
}

/// Goal: the page that compares two runs is readable, and shows the changes and the command.
#[test]
fn two_runs_are_a_page_that_can_be_read() {
    let scratch = Scratch::new();
    let files = ["before.json", "after.json"].map(|name| scratch.path(name));
    for (file, rate) in files.iter().zip(["100", "40"]) {
        let (file, set) = (
            file.to_str().expect("plain"),
            format!("mac.rate_gbps={rate}"),
        );
        let arguments = [
            "perf", "write_bw", "--preset", "cx5-100g", "-n", "200", "--set", &set,
        ];
        let more = ["--sweep", "size=64,1024,16384", "--json", file];
        let command = scratch.ferroce(&[&arguments[..], &more].concat());
        scratch.finish(command).expect_success();
    }
    let [before, after] = files.each_ref().map(|file| file.to_str().expect("plain"));
    let page = page(&scratch, &["--runs", before, after]);
    let text = fs::read_to_string(&page).expect("it was written");
    assert!(text.contains("Changed: mac.rate_gbps 100"), "{text}");
    assert!(text.contains(&format!("ferroce report --runs {before} {after}")));
    match browser() {
        Some(browser) => expect_readable(&scratch, &browser, &page),
        None => eprintln!("SKIPPED: no {} here, to look at the page", BROWSERS[0]),
    }
}

/// Goal: a page with targets, including a missed one, is readable although its tables are wide.
#[test]
fn a_page_with_targets_can_be_read() {
    let scratch = Scratch::new();
    let folder = scratch.path("measured");
    fs::create_dir(&folder).expect("ours");
    let targets = "id,preset,test,sizes,options,statistic,low,reference,high,unit,tolerance\n\
        own-1,cx5-100g,write_lat,64,,typical,,0.5,,us,10 %\n\
        own-2,cx5-100g,write_bw,64,,rate,,7,,Mpps,60 %\n";
    fs::write(folder.join("targets.csv"), targets).expect("ours");
    let page = page(&scratch, &["--blind", folder.to_str().expect("plain")]);
    let text = fs::read_to_string(&page).expect("it was written");
    let (missed, all) = text.split_once("id=\"validation\"").expect("all targets");
    assert!(missed.contains("<td>own-1</td>") && !missed.contains("<td>own-2</td>"));
    assert!(all.contains("<td>own-2</td>"), "{all}");
    match browser() {
        Some(browser) => expect_readable(&scratch, &browser, &page),
        None => eprintln!("SKIPPED: no {} here, to look at the page", BROWSERS[0]),
    }
}
