//! The option that injects packet faults.

use clap::Args;
use ferroce_faults::Plan;

/// Packet faults.
#[derive(Debug, Clone, Args)]
pub struct Faults {
    /// Inject packet faults: an expression such as loss=1e-3,seed=7, or a TOML file. The same seed
    /// meets the same packets
    ///
    ///   loss=P, dup=P, corrupt=P     lost, twice, damaged with a probability
    ///   drop=read_response#3@qp17    the third READ response to QP 17
    ///   burst=1e-4/0.2               loss in bursts: they begin, they end with a probability
    ///   delay=10us, jitter=5us       late
    ///   reorder=8paths               sprayed over paths of different length
    ///   down=5ms..7ms                the link fails, 5 ms after the first packet
    ///   partition=10.0.0.1-10.0.0.2  two hosts are separated
    ///   peer-killed=5ms/mr-first@at:10.0.0.1   that program is killed; also peer-stopped,
    ///                                peer-qp-error, mr-gone, no-receive, link-down,
    ///                                address-gone, power-failure
    ///
    /// Several are separated by commas; the chapter "Injected packet faults" has them all.
    #[arg(
        long = "faults",
        value_name = "PLAN",
        value_parser = ferroce_embed::faults::read,
        verbatim_doc_comment
    )]
    pub plan: Option<Plan>,
}

/// Refuses situations of programs in a plan for loops that have none.
pub fn refuse_situations(plan: Option<&Plan>) -> Result<(), String> {
    match plan.and_then(|plan| plan.situations().next()) {
        Some(situation) => Err(format!(
            "--faults {name}: {name} happens to a program: `ferroce run`, `ferroce world`; here \
             only packets suffer faults",
            name = situation.name()
        )),
        None => Ok(()),
    }
}
