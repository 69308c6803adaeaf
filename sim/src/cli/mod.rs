//! The command line: its commands and their help.

mod advice;
mod bind;
mod cm;
mod compare;
mod completions;
mod counters;
mod device;
mod devices;
mod fabric;
mod faults;
mod inject;
mod json;
mod lab;
mod library;
mod man;
mod measured;
mod merge;
mod mpirun;
mod perf;
mod perftest;
mod preset;
mod program;
mod progress;
mod record;
mod reg;
mod report;
mod rtl;
mod run;
mod schema;
mod selftest;
mod serve;
mod shard;
mod sim;
mod spec;
mod top;
mod topology;
mod trace;
mod trace_files;
mod validate;
mod wire;
mod world;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Exit code of a failure of this command, as in env(1) and timeout(1).
const EXIT_FAILURE: u8 = 125;

/// Version of the command, and revision of its sources.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("FERROCE_REVISION"),
    ")"
);

/// An RDMA NIC without the hardware: runs unmodified RDMA programs on a model of a card.
#[derive(Debug, Parser)]
#[command(
    name = "ferroce",
    version = VERSION,
    after_help = "\
Two terminals, one machine, no RDMA hardware, no root:
  ferroce run -- ib_write_bw                  the server
  ferroce run -- ib_write_bw 127.0.0.1        the client

While they run:
  ferroce devices                             the programs on the fabric
  ferroce counters                            the counters of their NICs
  ferroce top                                 their queue pairs, rates and errors, live
  ferroce cm                                  their RDMA CM listeners and connections
  ferroce inject port-down                    pulls their cables

A NIC for a virtual machine, or for any program that speaks vfio-user:
  ferroce serve --socket /run/vm/nic

How fast would the card be? perftest in simulated time; model beside measurement:
  ferroce perf write_bw --preset cx5-100g -a
  ferroce perftest write_lat --preset cx5-100g -a      the same by the real ib_write_lat
  ferroce run --timed cx5-100g -- ib_send_lat -a       any program
  ferroce compare cx3-40g@xeon-qdr cx3_qdr40_ib_write_bw
  ferroce compare cx5-100g --measured my_ib_write_bw.txt
  ferroce validate                            every target
  ferroce validate --blind DIR                targets and tables that you have measured
  ferroce report --out report                 a page with all plots
  ferroce lab                                 the model in a browser, to play with a card

Results for programs:
  ferroce compare cx3-40g@xeon-qdr cx3_qdr40_ib_write_bw --json
  ferroce schema compare                      the keys of that

A long command in parts, on several machines:
  ferroce validate --perturb --shard 1/8 > 1.json
  ferroce merge *.json                        what it prints without --shard

Random verbs programs with packet faults, against a reference:
  ferroce sim --seeds 1000

The first bitstream:
  ferroce selftest --device vfio:0000:01:00.0 what works, and what to check where it does not
  ferroce reg dump --device vfio:0000:01:00.0 its registers by name
  ferroce trace diff model.rec card.rec       where it differs from the model

Exit codes:
  0     success
  1     the result is a failure: validate, selftest, sim, wire check; trace diff: a difference
  2     the command line is wrong; trace: a file cannot be read
  3     run --strict: a thread of the program has left simulated time
  125   the command failed: a wrong value, no device, a file that cannot be written
  126   run: the program cannot be run; 127: there is no such program
  128+N ended by signal N: 130 after Ctrl-C
  Others of run and perftest are those of the program.

`ferroce help COMMAND` describes each command."
)]
pub struct Cli {
    /// Print results and errors only: no progress bar, no notes
    #[arg(long, global = true)]
    quiet: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Run>),
    Serve(serve::Serve),
    World(world::World),
    Mpirun(mpirun::Mpirun),
    Devices(devices::Devices),
    Counters(counters::Counters),
    Top(top::Top),
    Cm(cm::Cm),
    Inject(inject::Inject),
    Bind(bind::Bind),
    Unbind(bind::Unbind),
    Perf(Box<perf::Perf>),
    Perftest(Box<perftest::Perftest>),
    Compare(compare::Compare),
    Report(report::Report),
    Lab(lab::Lab),
    Validate(validate::Validate),
    Sim(Box<sim::Sim>),
    Merge(merge::Merge),
    #[command(name = "selftest")]
    SelfTest(selftest::SelfTest),
    Reg(reg::Reg),
    Spec(spec::Spec),
    Schema(schema::Schema),
    #[command(subcommand)]
    Preset(preset::PresetCommand),
    #[command(subcommand)]
    Topology(topology::TopologyCommand),
    #[command(subcommand)]
    Wire(wire::Wire),
    #[command(subcommand)]
    Trace(trace::Trace),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Cli {
    /// Parses the command line. An error ends the process with a message.
    pub fn of_process() -> Self {
        Self::try_parse().unwrap_or_else(|mut error| {
            advice::add(&mut error);
            error.exit()
        })
    }

    /// Executes the command; errors go to standard error.
    pub fn execute(self) -> ExitCode {
        if self.quiet {
            progress::be_quiet();
        }
        match self.command {
            Command::Run(run) => run.execute(),
            Command::Serve(serve) => or_complain(serve.execute()),
            Command::World(world) => or_complain(world.execute()),
            Command::Mpirun(mpirun) => mpirun.execute(),
            Command::Devices(devices) => or_complain(devices.execute()),
            Command::Counters(counters) => or_complain(counters.execute()),
            Command::Top(top) => or_complain(top.execute()),
            Command::Cm(cm) => or_complain(cm.execute()),
            Command::Inject(inject) => or_complain(inject.execute()),
            Command::Bind(bind) => or_complain(bind.execute()),
            Command::Unbind(unbind) => or_complain(unbind.execute()),
            Command::Perf(perf) => perf.execute(),
            Command::Perftest(perftest) => perftest.execute(),
            Command::Compare(compare) => or_complain(compare.execute()),
            Command::Report(report) => or_complain(report.execute()),
            Command::Lab(lab) => or_complain(lab.execute()),
            Command::Validate(validate) => validate.execute(),
            Command::Sim(sim) => sim.execute(),
            Command::Merge(merge) => merge.execute(),
            Command::SelfTest(selftest) => selftest.execute(),
            Command::Reg(reg) => or_complain(reg.execute()),
            Command::Spec(spec) => or_complain(spec.execute()),
            Command::Schema(schema) => or_complain(schema.execute()),
            Command::Preset(preset) => or_complain(preset.execute()),
            Command::Topology(topology) => or_complain(topology.execute()),
            Command::Wire(wire) => wire.execute(),
            Command::Trace(trace) => trace.execute(),
            Command::Completions(completions) => completions.execute(Self::command()),
            Command::Man(man) => or_complain(man.execute(Self::command())),
        }
    }
}

fn or_complain(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_error(&error, EXIT_FAILURE),
    }
}

fn report_error(error: &str, code: u8) -> ExitCode {
    eprintln!("ferroce: {error}");
    ExitCode::from(code)
}
