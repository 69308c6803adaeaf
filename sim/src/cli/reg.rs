//! `ferroce reg`: registers by name, from the contract's table.

use std::io::{Write, stdout};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use ferroce_driver::bus::Bus;
use ferroce_selftest::register_names::{self, Field, Place};
use ferroce_spec::register::{
    COUNTERS_OFFSET, Capability, MSIX_TABLE_OFFSET, RegisterAccess, offset,
};
use serde_json::{Value, json};

use super::device::{DeviceArgument, OpenedDevice};
use super::json::{JsonOption, document};
use super::record::RecordArgument;

/// Default time between two reads, in milliseconds.
const INTERVAL_MS: u64 = 100;

/// Read and write registers of a device by their names.
///
/// Nothing is reset and nothing is enabled, but opening a card through VFIO resets it. A device has
/// one user at a time: while a program uses it, use `ferroce counters`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce reg list
  ferroce reg dump --device vfio:0000:01:00.0
  ferroce reg get status
  ferroce reg get ROCE_ACCL.roce_adp_retrans_en   a field
  ferroce reg set ROCE_ACCL.selective_repeat_forced_en 1
  ferroce reg get 0x2000                       any dword of BAR0
  ferroce reg set control 0x2                  resets the function
  ferroce reg set event_queue_doorbell[3] 0x80000000
  ferroce reg watch clock --interval 500 --count 4
  ferroce reg dump --json")]
pub struct Reg {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    device: DeviceArgument,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List registers and counters: offset, width, access, meaning. Needs no device
    #[command(after_help = "\
Examples:
  ferroce reg list
  ferroce reg list --json")]
    List {
        #[command(flatten)]
        json: JsonOption,
    },
    /// Read one
    #[command(after_help = "\
Examples:
  ferroce reg get status
  ferroce reg get ROCE_ACCL.roce_adp_retrans_en --device vfio:0000:01:00.0")]
    Get {
        /// Its name, an element as in `event_queue_doorbell[3]`, a field as in
        /// `ROCE_ACCL.roce_adp_retrans_en`, or an offset in BAR0
        name: String,
        #[command(flatten)]
        json: JsonOption,
    },
    /// Write one, and read it back
    #[command(after_help = "\
Examples:
  ferroce reg set control 0x2                  resets the function")]
    Set {
        /// Its name, an element as in `event_queue_doorbell[3]`, or an offset in BAR0
        name: String,
        /// 10, 0x0a or 0b1010
        value: String,
        /// Also if it is read-only, or has no name
        #[arg(long)]
        force: bool,
    },
    /// Read all, with the names of their bits
    #[command(after_help = "\
Examples:
  ferroce reg dump --device vfio:0000:01:00.0
  ferroce reg dump --all --json")]
    Dump {
        /// Also counters that are zero
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        json: JsonOption,
    },
    /// Read one repeatedly, and print it when it changes
    #[command(after_help = "\
Examples:
  ferroce reg watch clock --interval 500 --count 4")]
    Watch {
        /// Its name, an element as in `event_queue_doorbell[3]`, or an offset in BAR0
        name: String,
        /// Milliseconds between two reads
        #[arg(long, value_name = "MS", default_value_t = INTERVAL_MS)]
        interval: u64,
        /// End after this many reads
        #[arg(long, value_name = "N")]
        count: Option<u64>,
        #[command(flatten)]
        json: JsonOption,
    },
}

impl Reg {
    /// Executes the command. Invalid arguments are reported before the device is opened.
    pub fn execute(self) -> Result<(), String> {
        // These actions do not use `--record`.
        let Self { device, action } = self;
        let open = || device.open(&RecordArgument::default());
        match action {
            Action::List { json } => {
                if json.prepare()? {
                    list();
                }
                json.write("reg list", registers_json)?;
            }
            Action::Get { name, json } => get(&name, &json, open)?,
            Action::Set { name, value, force } if is_field(&name) => {
                let field = find_field(&name)?;
                let value = check_field(&field, &value, force)?;
                let device = open()?;
                set_field(&field, value, &device);
            }
            Action::Set { name, value, force } => {
                let place = find(&name)?;
                let value = check(&place, &value, force)?;
                let device = open()?;
                set(&place, value, &device);
            }
            Action::Dump { all, json } => {
                let prints = json.prepare()?;
                let device = open()?;
                let dump = Dump::read(&*device.bus(), all);
                if prints {
                    dump.show();
                }
                check_presence(&*device.bus())?;
                json.write("reg dump", || dump.json())?;
            }
            Action::Watch {
                name,
                interval,
                count,
                json,
            } => {
                let place = find(&name)?;
                json.prepare()?;
                let device = open()?;
                let (interval, output) = (Duration::from_millis(interval), &json);
                let how = Watching {
                    interval,
                    count,
                    output,
                };
                watch(&place, &*device.bus(), &how)?;
            }
        }
        Ok(())
    }
}

fn find(name: &str) -> Result<Place, String> {
    register_names::find(name).map_err(|error| error.to_string())
}

fn is_field(name: &str) -> bool {
    name.contains('.')
}

fn find_field(name: &str) -> Result<Field, String> {
    register_names::find_field(name)
        .ok_or_else(|| format!("there is no field {name:?}; `ferroce reg list` names them all"))
}

fn show_field(field: &Field, register: u64) {
    let name = format!("{}.{}", field.place.name, field.bits.name);
    println!("{name:42} {:#x}", field.of(register));
}

/// Returns the value to write to a field, if it may be written.
fn check_field(field: &Field, text: &str, force: bool) -> Result<u64, String> {
    let value = register_names::parse_number(text)
        .ok_or_else(|| format!("{text:?} is not a number such as 10, 0x0a or 0b1010"))?;
    if field.put(0, value).is_none() {
        return Err(format!("{} is too small for {value:#x}", field.bits.name));
    }
    check(&field.place, "0", force).map(|_| value)
}

/// Writes a field, and leaves the others of its register as they are.
fn set_field(field: &Field, value: u64, device: &OpenedDevice) {
    let bus = device.bus();
    let before = field.place.read(&*bus);
    if let Some(register) = field.put(before, value) {
        field.place.write(&*bus, register);
    }
    let read = field.place.read(&*bus);
    show_field(field, read);
    if field.of(read) != value {
        eprintln!("ferroce: {} cannot be changed", field.bits.name);
    }
}

/// Reads a register or a field.
fn get(
    name: &str,
    json: &JsonOption,
    open: impl FnOnce() -> Result<OpenedDevice, String>,
) -> Result<(), String> {
    if is_field(name) {
        let (field, prints) = (find_field(name)?, json.prepare()?);
        let device = open()?;
        let value = field.place.read(&*device.bus());
        if prints {
            show_field(&field, value);
        }
        check_presence(&*device.bus())?;
        return json.write("reg get", || field_json(&field, value));
    }
    let (place, prints) = (find(name)?, json.prepare()?);
    let device = open()?;
    let value = place.read(&*device.bus());
    if prints {
        show(&place, value);
    }
    check_presence(&*device.bus())?;
    json.write("reg get", || value_json(&place, value))
}

fn access_name(access: RegisterAccess) -> &'static str {
    match access {
        RegisterAccess::ReadOnly => "RO",
        RegisterAccess::ReadWrite => "RW",
        RegisterAccess::WriteOnly => "WO",
    }
}

fn list() {
    println!("offset  bits        name                       meaning");
    let mut arrays = Vec::new();
    for place in register_names::all() {
        let name = match place.name.split_once('[') {
            // An array is printed in one line.
            Some((name, _)) if arrays.contains(&name.to_owned()) => continue,
            Some((name, _)) => {
                arrays.push(name.to_owned());
                let elements = register_names::all()
                    .filter(|other| other.name.starts_with(&format!("{name}[")));
                format!("{name}[{}]", elements.count())
            }
            None => place.name.clone(),
        };
        println!(
            "{:#06x}  {:4} {:2}     {name:26} {}",
            place.offset,
            8 * place.width,
            access_name(place.access),
            place.meaning
        );
        for bits in place.word.iter().flat_map(|word| word.bits) {
            let range = if bits.high > bits.low {
                format!("{}:{}", bits.high, bits.low)
            } else {
                bits.low.to_string()
            };
            println!("{:18} {range:>6} {:26} {}", "", bits.name, bits.meaning);
        }
    }
}

fn show(place: &Place, value: u64) {
    let decoded = match place.access {
        RegisterAccess::WriteOnly => "write-only: reads as zero".to_owned(),
        _ => place.decode(value),
    };
    let text = format!(
        "{:26} {:18}  {decoded}",
        place.name,
        place.hexadecimal(value)
    );
    println!("{}", text.trim_end());
}

/// Returns the value to write, if it may be written.
fn check(place: &Place, text: &str, force: bool) -> Result<u64, String> {
    let value = register_names::parse_number(text)
        .ok_or_else(|| format!("{text:?} is not a number such as 10, 0x0a or 0b1010"))?;
    if !place.holds(value) {
        let bits = 8 * place.width;
        return Err(format!(
            "{} has {bits} bits, {value:#x} does not fit",
            place.name
        ));
    }
    let why = if place.access == RegisterAccess::ReadOnly {
        "is read-only: the device ignores a write"
    } else if place.meaning.is_empty() {
        "has no name: the effect of a write is unknown"
    } else {
        return Ok(value);
    };
    if force {
        eprintln!("ferroce: {} {why}", place.name);
        return Ok(value);
    }
    Err(format!(
        "{} {why}; --force writes it all the same",
        place.name
    ))
}

fn set(place: &Place, value: u64, device: &OpenedDevice) {
    let bus = device.bus();
    place.write(&*bus, value);
    let read = place.read(&*bus);
    show(place, read);
    if place.access == RegisterAccess::ReadWrite && read != value {
        eprintln!(
            "ferroce: {} was written as {}; it is as shown now",
            place.name,
            place.hexadecimal(value)
        );
    }
}

/// The values of all registers and counters.
struct Dump {
    values: Vec<Reading>,
    /// Counters that are zero and left out.
    zeros: usize,
}

struct Reading {
    place: Place,
    value: u64,
}

impl Dump {
    fn read(bus: &dyn Bus, all: bool) -> Self {
        let capability = Capability::from_bits(bus.read64(offset::capability));
        // A removed device seems to have all counters: its registers read as all ones.
        let counters = match capability.bits() {
            u64::MAX => MSIX_TABLE_OFFSET,
            _ => COUNTERS_OFFSET + 8 * u32::from(capability.counters()),
        };
        let (mut values, mut zeros) = (Vec::new(), 0);
        for place in register_names::all() {
            let is_counter = place.offset >= COUNTERS_OFFSET;
            if place.access == RegisterAccess::WriteOnly || is_counter && place.offset >= counters {
                continue;
            }
            let value = place.read(bus);
            if is_counter && value == 0 && !all {
                zeros += 1;
            } else {
                values.push(Reading { place, value });
            }
        }
        Self { values, zeros }
    }

    fn show(&self) {
        for Reading { place, value } in &self.values {
            show(place, *value);
        }
        if self.zeros > 0 {
            println!("{} counters are zero; --all shows them", self.zeros);
        }
    }

    fn json(&self) -> Value {
        let values = self.values.iter();
        let values = values.map(|Reading { place, value }| value_json(place, *value));
        json!({ "values": values.collect::<Value>(), "zero_counters": self.zeros })
    }
}

/// How a register is watched.
struct Watching<'a> {
    interval: Duration,
    /// Number of reads; `None`: without end.
    count: Option<u64>,
    output: &'a JsonOption,
}

/// Prints each change: a line of text, or of JSON if that goes to standard output.
fn watch(place: &Place, bus: &dyn Bus, how: &Watching<'_>) -> Result<(), String> {
    let start = Instant::now();
    let mut last = None;
    let mut reads = 0u64;
    loop {
        let value = place.read(bus);
        if last != Some(value) {
            let seconds = start.elapsed().as_secs_f64();
            let result = || {
                let mut result = value_json(place, value);
                result["time_s"] = seconds.into();
                result
            };
            if how.output.prints_text() {
                print!("{seconds:10.3} s  ");
                show(place, value);
                how.output.write("reg watch", result)?;
            } else {
                println!("{}", document("reg watch", result()));
            }
            // Flush each line at once, so that it also passes through a pipe.
            let _ = stdout().flush();
            check_presence(bus)?;
        }
        last = Some(value);
        reads += 1;
        if how.count.is_some_and(|count| reads >= count) {
            return Ok(());
        }
        thread::sleep(how.interval);
    }
}

/// Returns all registers and counters as JSON.
fn registers_json() -> Value {
    let registers = register_names::all().map(|place| {
        let fields = place.word.iter().flat_map(|word| word.bits);
        let fields = fields.map(|bits| {
            json!({
                "name": bits.name,
                "high": bits.high,
                "low": bits.low,
                "meaning": bits.meaning.trim(),
            })
        });
        json!({
            "name": place.name,
            "offset": place.offset,
            "bits": 8 * place.width,
            "access": access_name(place.access),
            "meaning": place.meaning.trim(),
            "fields": fields.collect::<Value>(),
        })
    });
    json!({ "registers": registers.collect::<Value>() })
}

/// Returns the value of a register as JSON.
fn value_json(place: &Place, value: u64) -> Value {
    json!({
        "name": place.name,
        "offset": place.offset,
        "value": value,
        "meaning": place.decode(value),
    })
}

/// Returns the value of a field as JSON.
fn field_json(field: &Field, register: u64) -> Value {
    json!({
        "name": format!("{}.{}", field.place.name, field.bits.name),
        "offset": field.place.offset,
        "value": field.of(register),
        "meaning": field.bits.meaning.trim(),
    })
}

/// Checks that the device is present: the capability of a present device is never all ones.
fn check_presence(bus: &dyn Bus) -> Result<(), String> {
    if bus.read64(offset::capability) == u64::MAX {
        return Err("the device does not answer: every register reads as all ones".to_owned());
    }
    Ok(())
}
