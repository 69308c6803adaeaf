//! `ferroce bind` and `ferroce unbind`: bind a card to the kernel's VFIO driver, and back.

mod steps;
mod system;
#[cfg(test)]
mod tests;

use clap::Args;
use ferroce_vfio::pci::{Bdf, FERROCE, Function, Roots, is_vfio};

use self::steps::Steps;
use self::system::{Machine, System};

/// Bind a card to VFIO, so that programs can use it; without an address, list the cards.
///
/// Needs root. Each step is printed as the shell command that does the same.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferroce bind 0000:01:00.0 --dry-run
  sudo ferroce bind 0000:01:00.0")]
pub struct Bind {
    /// Address of the card, as lspci -D prints it.
    bdf: Option<Bdf>,
    /// The user that may open the card; without it, only root may.
    #[arg(long, value_name = "NAME", requires = "bdf")]
    user: Option<String>,
    /// Also a function that is not a Ferroce card: one that shares the card's IOMMU group.
    #[arg(long, requires = "bdf")]
    any: bool,
    /// Only print what would be done.
    #[arg(long)]
    dry_run: bool,
}

/// Give a card back to the driver that the kernel would choose.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo ferroce unbind 0000:01:00.0")]
pub struct Unbind {
    /// Address of the card, as lspci -D prints it.
    bdf: Bdf,
    /// Also a function that is not a Ferroce card.
    #[arg(long)]
    any: bool,
    /// Only print what would be done.
    #[arg(long)]
    dry_run: bool,
}

impl Bind {
    /// Binds the card, or lists the cards.
    pub fn execute(self) -> Result<(), String> {
        self.execute_on(&Machine::new())
    }

    fn execute_on(self, system: &dyn System) -> Result<(), String> {
        let Some(bdf) = self.bdf else {
            list(system.roots())
                .iter()
                .for_each(|line| system.print(line));
            return Ok(());
        };
        let steps = Steps::new(system, bdf, self.any, self.dry_run)?;
        steps.bind(self.user.as_deref())
    }
}

impl Unbind {
    /// Unbinds the card.
    pub fn execute(self) -> Result<(), String> {
        self.execute_on(&Machine::new())
    }

    fn execute_on(self, system: &dyn System) -> Result<(), String> {
        Steps::new(system, self.bdf, self.any, self.dry_run)?.unbind()
    }
}

/// Returns the cards of the machine and their state, one line for each.
fn list(roots: &Roots) -> Vec<String> {
    let cards = roots.cards();
    if cards.is_empty() {
        return vec![format!(
            "This machine has no Ferroce card (lspci -d {FERROCE}). A model needs none: \
             ferroce run -- PROGRAM"
        )];
    }
    cards.iter().map(|card| line(roots, card)).collect()
}

fn line(roots: &Roots, card: &Function) -> String {
    let bdf = card.bdf;
    let Some(group) = card.iommu_group() else {
        if card.may_get_group(roots) {
            return format!("{bdf}  bound to no driver; for programs: ferroce bind {bdf}");
        }
        return format!("{bdf}  no IOMMU: cannot be used");
    };
    let driver = card.driver();
    let state = match driver.as_deref() {
        Some(driver) if is_vfio(driver) => match holders(roots, card)[..] {
            [] => format!("bound to {driver}: ferroce run --device vfio:{bdf} -- PROGRAM"),
            [pid, ..] => format!("bound to {driver}, in use by process {pid}"),
        },
        Some(driver) => format!("bound to {driver}; for programs: ferroce bind {bdf}"),
        None => format!("bound to no driver; for programs: ferroce bind {bdf}"),
    };
    format!("{bdf}  IOMMU group {group}  {state}")
}

/// Returns the processes that use the card, if this process has the rights to see them.
fn holders(roots: &Roots, card: &Function) -> Vec<u32> {
    let group = card.iommu_group().map(|group| roots.group_node(group));
    let nodes = group.into_iter().chain(roots.device_node(card));
    nodes.flat_map(|node| roots.holders(&node)).collect()
}
