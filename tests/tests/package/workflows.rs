//! Files that run on other machines: the release workflow, `action.yml`, the Containerfile, and the
//! scripts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferroce_tests::{Ended, Scratch, ferroce};

use super::{is_here, output, packaging, project};

/// Reads the YAML files, finds errors that GitHub would refuse, and writes each `run:` block into a
/// folder.
const READ_YAML: &str = r#"
import pathlib, re, sys, yaml
folder, count, wrong = pathlib.Path(sys.argv[1]), 0, []
def check(where, fine):
    if not fine: wrong.append(where)
for name in sys.argv[2:]:
    document = yaml.safe_load(open(name))
    short = pathlib.Path(name).name
    jobs = document.get("jobs", {"action": document.get("runs")})
    for job, body in jobs.items():
        where = f"{short}, {job}"
        if "jobs" in document:
            check(f"{where}: no runs-on", "runs-on" in body)
            check(f"{where}: no timeout-minutes", isinstance(body.get("timeout-minutes"), int))
            needs = body.get("needs", [])
            for other in [needs] if isinstance(needs, str) else needs:
                check(f"{where}: needs {other}, which is no job", other in jobs)
        else:
            check(f"{where}: not a composite action", body.get("using") == "composite")
        ids = {step["id"] for step in body["steps"] if "id" in step}
        for step in body["steps"]:
            check(f"{where}: {step}: not one of run and uses", ("run" in step) != ("uses" in step))
            for used in re.findall(r"steps\.([\w-]+)\.", str(step)):
                check(f"{where}: no step {used}", used in ids)
            for used in re.findall(r"inputs\.([\w-]+)", str(step)):
                check(f"{where}: no input {used}", used in document.get("inputs", {}))
            for used in re.findall(r"matrix\.([\w-]+)", str(step)):
                check(f"{where}: no matrix {used}", used in body["strategy"]["matrix"])
            if "run" in step:
                check(f"{where}: text of others in a script", "${{" not in step["run"])
                check(f"{where}: no shell", "jobs" in document or "shell" in step)
                count += 1
                (folder / f"{count}.sh").write_text(step["run"])
print(f"{count} scripts")
sys.exit("\n".join(wrong) or 0)
"#;

/// Returns true if Python can read YAML here.
fn has_yaml() -> bool {
    let mut python = Command::new("python3");
    let found = python.args(["-c", "import yaml"]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("SKIPPED: CI files: no python3 with yaml here (python3-yaml)");
    }
    found
}

fn read_yaml(scratch: &Scratch, files: &[PathBuf]) -> Ended {
    let folder = scratch.path("scripts");
    fs::create_dir_all(&folder).expect("our own folder");
    let mut python = Command::new("python3");
    python.args(["-c", READ_YAML]).arg(folder).args(files);
    scratch.finish(python)
}

/// Fails unless bash and shellcheck find nothing wrong.
fn check_script(scratch: &Scratch, path: &Path) {
    let name = path.to_string_lossy();
    output(scratch, "bash", &["-n", &name]);
    if is_here("shellcheck", "scripts") {
        // Blocks of CI files have no shebang line.
        let shell: &[&str] = if fs::read_to_string(path).expect("UTF-8").starts_with("#!") {
            &["-x"]
        } else {
            &["-s", "bash"]
        };
        let options = [shell, &["-P", "SCRIPTDIR", &name]].concat();
        output(scratch, "shellcheck", &options);
    }
}

/// Goal: GitHub accepts the workflow and the action. Method: check their structure, and each script
/// in them.
#[test]
fn ci_files_are_well_formed() {
    if !has_yaml() {
        return;
    }
    let scratch = Scratch::new();
    let files = ["action.yml", ".github/workflows/release.yml"].map(project);
    let said = read_yaml(&scratch, &files).expect_success();
    let count: usize = said
        .split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    assert!(count >= 8, "only {said}");
    for number in 1..=count {
        check_script(&scratch, &scratch.path(&format!("scripts/{number}.sh")));
    }
}

/// Goal: the check of CI files can fail. Method: a workflow with one fault of each kind.
#[test]
fn faults_in_ci_files_are_found() {
    if !has_yaml() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.path("wrong.yml");
    let text = "
jobs:
  one:
    needs: other
    runs-on: x
    steps:
      - run: echo ${{ github.ref }}
      - name: nothing
      - uses: ./
        with: {a: '${{ steps.find.outputs.b }}'}
";
    fs::write(&file, text).expect("our own folder");
    let ended = read_yaml(&scratch, &[file]);
    assert!(!ended.succeeded(), "{ended:?}");
    let faults = [
        "no timeout-minutes",
        "needs other",
        "text of others",
        "not one of",
        "no step find",
    ];
    for fault in faults {
        assert!(ended.output.contains(fault), "no {fault}: {ended:?}");
    }
}

#[test]
fn scripts_of_packages_are_clean() {
    let scratch = Scratch::new();
    for name in [
        "stage",
        "install",
        "uninstall",
        "package",
        "glibc-floor",
        "profile",
        "action",
    ] {
        check_script(&scratch, &project("packaging").join(name));
    }
    for name in ["package-root", "bare-root"] {
        check_script(&scratch, &project("tests/scripts").join(name));
    }
}

/// Goal: check the recipe of the image without a container engine. Method: its commands are valid
/// scripts, and `make package` writes the files that it copies.
#[test]
fn commands_of_the_containerfile_are_clean() {
    let scratch = Scratch::new();
    let text = fs::read_to_string(project("packaging/Containerfile")).expect("UTF-8");
    let text = text.replace("\\\n", " ");
    let known = [
        "FROM",
        "RUN",
        "COPY",
        "WORKDIR",
        "USER",
        "ENTRYPOINT",
        "CMD",
    ];
    let mut count = 0;
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (word, rest) = line.split_once(' ').expect("an instruction");
        assert!(known.contains(&word), "{line}");
        if word == "RUN" {
            let path = scratch.path("run.sh");
            fs::write(&path, format!("{rest}\n")).expect("our own folder");
            check_script(&scratch, &path);
            count += 1;
        }
    }
    assert!(count >= 4, "only {count} commands");
    assert!(
        text.contains("--from=build /ferroce/target/package/"),
        "{text}"
    );
    let makefile = fs::read_to_string(project("Makefile")).expect("UTF-8");
    assert!(makefile.contains("packaging/package $(RELEASE) $(CURDIR)/target/package"));
}

/// A fake machine of a CI job: it has the programs of this machine, but apt-get, dpkg and sudo only
/// print their arguments.
struct Job {
    scratch: Scratch,
}

impl Job {
    fn new() -> Self {
        let job = Self {
            scratch: Scratch::new(),
        };
        fs::create_dir_all(job.scratch.path("bin")).expect("our own folder");
        job.program("apt-get", "echo \"apt-get $*\" >>\"$CALLS\"");
        job.program("dpkg", "echo amd64");
        job.program("sudo", "exec \"$@\"");
        let command = ferroce().canonicalize().expect("it is there");
        let link = job.scratch.path("bin/ferroce");
        std::os::unix::fs::symlink(command, link).expect("our own folder");
        job
    }

    fn program(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.scratch.path("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("our own folder");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own file");
    }

    /// Writes a release, with or without the right checksum.
    fn release(&self, is_right: bool) {
        let version = env!("CARGO_PKG_VERSION");
        let folder = self.scratch.path(&format!("releases/v{version}"));
        fs::create_dir_all(&folder).expect("our own folder");
        let name = format!("ferroce_{version}_amd64.deb");
        fs::write(folder.join(&name), "a package").expect("our own folder");
        let mut sum = Command::new("sha256sum");
        sum.arg(&name).current_dir(&folder);
        let mut sums = self.scratch.finish(sum).expect_success();
        if !is_right {
            sums = format!("{}{}", "0".repeat(64), &sums[64..]);
        }
        fs::write(folder.join("SHA256SUMS"), sums).expect("our own folder");
    }

    fn run(&self, variables: &[(&str, &str)]) -> Ended {
        let mut command = packaging("action");
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.scratch.path("bin");
        command.env("PATH", format!("{}:{path}", bin.display()));
        let releases = self.scratch.path("releases");
        command.env("FERROCE_RELEASES", format!("file://{}", releases.display()));
        for (name, file) in [
            ("CALLS", "calls"),
            ("GITHUB_ENV", "env"),
            ("GITHUB_OUTPUT", "out"),
        ] {
            command.env(name, self.scratch.path(file));
        }
        command.env("FERROCE_DIR", self.scratch.path("fabric"));
        command
            .env_remove("LD_LIBRARY_PATH")
            .env_remove("LD_PRELOAD");
        command.envs(variables.iter().copied());
        self.scratch.finish(command)
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.scratch.path(file)).unwrap_or_default()
    }
}

/// Goal: a job with `uses:` gets the package of the release. Method: run the action's step on the
/// fake machine, with a release in a folder.
#[test]
fn the_action_installs_the_release() {
    if !is_here("curl", "the action") {
        return;
    }
    let job = Job::new();
    job.release(true);
    let said = job.run(&[("SET_LIBRARY_PATH", "true")]).expect_success();
    assert!(said.contains("ferroce0"), "{said}");
    let calls = job.read("calls");
    assert!(
        calls.contains("install /") && calls.contains("_amd64.deb ibverbs-utils"),
        "{calls}"
    );
    assert_eq!(job.read("env"), "LD_LIBRARY_PATH=/usr/lib/ferroce\n");
    assert_eq!(job.read("out"), "libraries=/usr/lib/ferroce\n");
}

/// Goal: the action stops with an error message before anything is installed.
#[test]
fn the_action_refuses_what_is_not_the_release() {
    if !is_here("curl", "the action") {
        return;
    }
    for (variables, is_right, words) in [
        (&[] as &[_], false, "SHA256SUMS"),
        (&[("VERSION", "v9.9.9")], true, "is there a release v9.9.9"),
        (
            &[("PACKAGE", "/no/such.deb")],
            true,
            "/no/such.deb: no such package",
        ),
        (
            &[("PACKAGE", "/etc/passwd")],
            true,
            "neither .deb nor .tar.gz",
        ),
    ] {
        let job = Job::new();
        job.release(is_right);
        let ended = job.run(variables);
        assert!(
            !ended.succeeded() && ended.output.contains("::error"),
            "{ended:?}"
        );
        assert!(ended.output.contains(words), "{ended:?}");
        assert_eq!(job.read("calls"), "");
    }
}
