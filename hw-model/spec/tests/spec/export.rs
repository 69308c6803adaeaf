//! The contract in other languages: the committed copies match the code, and the tools of each
//! language accept them with the same values.

use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ferroce_spec::contract::{CONSTANTS, ENUMS, LAYOUTS, WORDS};
use ferroce_spec::counter::COUNTERS;
use ferroce_spec::export::Format;
use ferroce_spec::register::REGISTERS;

const COPIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/generated");

/// Runs a tool in `folder`. `None`: the tool is not installed, which is said.
fn run(folder: &Path, tool: &str, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(tool);
    match command.args(arguments).current_dir(folder).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("NOT TESTED: {tool} is not installed");
            None
        }
        output => Some(output.expect("the tool can be run")),
    }
}

/// Runs a tool that has to succeed. False: it is not installed.
fn succeed(folder: &Path, tool: &str, arguments: &[&str]) -> bool {
    let Some(output) = run(folder, tool, arguments) else {
        return false;
    };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "{tool} {arguments:?}:\n{text}");
    true
}

/// A folder for the files of one test.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&path).expect("the folder can be made");
    path
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).expect("the file can be written");
}

/// Goal: the files in `generated/` are what the code prints. `FERROCE_UPDATE=1` writes them.
#[test]
fn committed_copies_are_those_of_the_code() {
    let copies = [
        ("ferroce_pkg.sv", Format::SystemVerilog),
        ("ferroce.h", Format::C),
        ("ferroce_bar0.rdl", Format::SystemRdl),
    ];
    for (name, format) in copies {
        let path = Path::new(COPIES).join(name);
        let fresh = format.print();
        if std::env::var_os("FERROCE_UPDATE").is_some() {
            fs::create_dir_all(COPIES).expect("the folder can be made");
            fs::write(&path, fresh).expect("the copy can be written");
            continue;
        }
        let text = fs::read_to_string(&path).expect("there is a copy");
        for (number, (old, new)) in text.lines().zip(fresh.lines()).enumerate() {
            let line = number + 1;
            assert_eq!(old, new, "{name}:{line} (FERROCE_UPDATE=1 mends it)");
        }
        assert_eq!(text.lines().count(), fresh.lines().count(), "{name}");
    }
}

/// A module whose output is one when each field of each structure and word of the package lies
/// where the declarations say, whatever the bytes are.
fn field_checks() -> String {
    let bits = 8 * LAYOUTS.iter().map(|t| t.size).max().unwrap_or(0);
    let mut text = format!(
        "module fields(input logic [{}:0] bytes_in, output logic ok);\n",
        bits - 1
    );
    let mut conditions = Vec::new();
    let mut check =
        |text: &mut String, name: &str, bits: usize, fields: &[(String, usize, usize)]| {
            let kind = snake(name);
            writeln!(text, "  ferroce_pkg::{kind}_t {kind};").expect("a String");
            writeln!(text, "  assign {kind} = bytes_in[{}:0];", bits - 1).expect("a String");
            for (field, low, width) in fields {
                let high = low + width - 1;
                conditions.push(format!("{kind}.{field} == bytes_in[{high}:{low}]"));
            }
        };
    for layout in LAYOUTS {
        let fields = layout
            .fields
            .iter()
            .map(|f| (member(f.name), 8 * f.offset, 8 * f.size));
        check(
            &mut text,
            layout.name,
            8 * layout.size,
            &fields.collect::<Vec<_>>(),
        );
    }
    for word in WORDS {
        let field = |b: &ferroce_spec::layout::Bits| {
            (
                member(b.name),
                b.low as usize,
                (b.high - b.low + 1) as usize,
            )
        };
        let fields: Vec<_> = word.bits.iter().map(field).collect();
        check(&mut text, word.name, word.width as usize, &fields);
    }
    writeln!(
        text,
        "  assign ok = {};\nendmodule",
        conditions.join("\n    && ")
    )
    .expect("a String");
    text
}

/// The name of a type or field in the package.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

fn member(name: &str) -> String {
    let mark = if ["context", "event", "inline", "null", "sequence", "vector"].contains(&name) {
        "_"
    } else {
        ""
    };
    format!("{name}{mark}")
}

/// Goal: Verilator reads the package and its use without a warning.
#[test]
fn verilator_reads_the_package() {
    let folder = folder("verilator");
    write(&folder, "ferroce_pkg.sv", &Format::SystemVerilog.print());
    write(&folder, "fields.sv", &field_checks());
    let files = ["ferroce_pkg.sv", "fields.sv"];
    let options = [
        "--lint-only",
        "-Wall",
        "-Wno-UNUSEDSIGNAL",
        "--top-module",
        "fields",
    ];
    succeed(&folder, "verilator", &[&options[..], &files[..]].concat());
}

/// Goal: yosys reads the package, and each member of each structure has the place that the
/// declarations give it. Method: a SAT proof over all contents.
#[test]
fn yosys_finds_each_field_in_its_place() {
    let folder = folder("yosys");
    write(&folder, "ferroce_pkg.sv", &Format::SystemVerilog.print());
    write(&folder, "fields.sv", &field_checks());
    let script = "read_verilog -sv ferroce_pkg.sv fields.sv; hierarchy -top fields; proc; opt; \
                  sat -verify -prove ok 1 fields";
    if succeed(&folder, "yosys", &["-q", "-p", script]) {
        // The proof can fail: the same with one member expected one bit beside its place.
        let right = "cqe.byte_count == bytes_in[95:64]";
        let checks = field_checks();
        assert!(checks.contains(right));
        let wrong = checks.replace(right, "cqe.byte_count == bytes_in[96:65]");
        write(&folder, "fields.sv", &wrong);
        let output = run(&folder, "yosys", &["-q", "-p", script]).expect("yosys is installed");
        assert!(!output.status.success());
    }
}

/// Goal: the header compiles as C11 and C++11 without a warning; its own assertions check the
/// places of the fields, and the masks read and write the fields of a word.
#[test]
fn compilers_read_the_header() {
    let folder = folder("header");
    write(&folder, "ferroce.h", &Format::C.print());
    let program = "\
        #include \"ferroce.h\"\n\
        #include \"ferroce.h\"\n\
        int main(void)\n{\n\
            struct ferroce_cqe cqe = {0};\n\
            cqe.word = FERROCE_PUT(FERROCE_CQE_STATUS_RETRY_EXCEEDED, FERROCE_CQE_WORD_STATUS)\n\
                | FERROCE_PUT(1u, FERROCE_CQE_WORD_OWNER);\n\
            uint64_t bell = FERROCE_PUT(0x12345678u, FERROCE_DOORBELL_VALUE_NUMBER);\n\
            return !(cqe.word == 0x80000c00u && bell == 0x0034567800000000ull\n\
                && FERROCE_GET(cqe.word, FERROCE_CQE_WORD_STATUS) == 0xc\n\
                && FERROCE_OFFSET_CONTROL == 0x20 && FERROCE_INPUT_BYTES_MODIFY_EQ == 32);\n}\n";
    write(&folder, "use.c", program);
    write(&folder, "use.cpp", &program.replace("{0}", "{}"));
    let warnings = ["-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"];
    let c = [&["-std=c11"], &warnings[..], &["-o", "use-c", "use.c"]].concat();
    if succeed(&folder, "gcc", &c) {
        succeed(&folder, "./use-c", &[]);
    }
    let cpp = [
        &["-std=c++11"],
        &warnings[..],
        &["-o", "use-cpp", "use.cpp"],
    ]
    .concat();
    if succeed(&folder, "g++", &cpp) {
        succeed(&folder, "./use-cpp", &[]);
    }
}

/// Goal: the JSON text is well-formed and has every row.
#[test]
fn a_parser_reads_the_json() {
    let document: serde_json::Value =
        serde_json::from_str(&Format::Json.print()).expect("well-formed");
    let rows = |name: &str| document[name].as_array().map_or(0, Vec::len);
    assert_eq!(rows("registers"), REGISTERS.len());
    assert_eq!(rows("counters"), COUNTERS.len());
    assert_eq!(rows("words"), WORDS.len());
    assert_eq!(rows("structures"), LAYOUTS.len());
    assert_eq!(rows("enums"), ENUMS.len());
    assert_eq!(
        rows("constants"),
        CONSTANTS.iter().map(|(_, rows)| rows.len()).sum::<usize>()
    );
    let named = |list: &serde_json::Value, name: &str| {
        let mut rows = list.as_array().expect("a list").iter();
        rows.find(|row| row["name"] == name).expect("a row").clone()
    };
    let control = named(&document["registers"], "control");
    assert_eq!(
        (&control["offset"], &control["word"]),
        (&0x20.into(), &"Control".into())
    );
    let context = named(&document["structures"], "QpContext");
    let path = named(&context["fields"], "path");
    assert_eq!(
        (&path["offset"], &path["type"]),
        (&0x50.into(), &"AddressPath".into())
    );
}

/// Goal: the SystemRDL compiler elaborates BAR0, and finds registers and fields in their places.
#[test]
fn the_systemrdl_compiler_reads_bar0() {
    let folder = folder("systemrdl");
    write(&folder, "ferroce_bar0.rdl", &Format::SystemRdl.print());
    let script = "\
import sys
try:
    from systemrdl import RDLCompiler
except ImportError:
    sys.exit(77)
compiler = RDLCompiler()
compiler.compile_file('ferroce_bar0.rdl')
top = compiler.elaborate().top
for node in top.descendants(unroll=True):
    if hasattr(node, 'msb'):
        print(node.get_path(), node.lsb, node.width, node.get_property('reset'))
    else:
        print(node.get_path(), hex(node.absolute_address))
";
    write(&folder, "elaborate.py", script);
    let python = std::env::var("FERROCE_PYTHON").unwrap_or_else(|_| "python3".into());
    let output = Command::new(&python)
        .arg("elaborate.py")
        .current_dir(&folder)
        .output();
    let output = match output {
        Ok(output) if output.status.code() != Some(77) => output,
        _ => {
            println!("NOT TESTED: {python} has no module systemrdl (PyPI: systemrdl-compiler)");
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for line in [
        "ferroce_bar0.control 0x20",
        "ferroce_bar0.control.reset 1 1 0",
        "ferroce_bar0.magic.value 0 32 1129271878",
        "ferroce_bar0.event_queue_doorbell[15] 0x13c",
        "ferroce_bar0.adp_retx_range[1].dec_mode 32 2 0",
        "ferroce_bar0.roce_accl_limits.adp_retx_profile_max_range_num 28 3 4",
        "ferroce_bar0.rx_frames 0x1020",
        "ferroce_bar0.msix_table[15].vector_control 0x20fc",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is not in\n{text}"
        );
    }
}
