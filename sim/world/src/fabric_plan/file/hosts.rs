//! The hosts of a file, and their functions.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;

use super::{FabricError, FileText, MAX_FUNCTIONS, Reader, host_number, host_numbers};

/// The number of functions of a host in a file.
#[derive(Debug, Clone)]
pub(super) struct Functions {
    /// Their number.
    pub count: usize,
    /// Position in the file.
    span: Range<usize>,
}

/// By the numbers of hosts.
pub(super) type FunctionsOfHosts = BTreeMap<usize, Functions>;

impl Reader<'_> {
    /// Returns the hosts whose number of functions is in the file.
    pub(super) fn functions(&self, file: &FileText) -> Result<FunctionsOfHosts, FabricError> {
        let mut several = BTreeMap::new();
        for text in &file.hosts {
            let most = MAX_FUNCTIONS as u64;
            let count = self.within("functions", &text.functions, &(1..=most))? as usize;
            for number in self.host_numbers(&text.name)? {
                let span = text.name.span();
                if several.insert(number, Functions { count, span }).is_some() {
                    let what = format!("the functions of n{number} are given twice");
                    return self.wrong(&text.name.span(), what);
                }
            }
        }
        Ok(several)
    }

    /// Checks that a file links all hosts that it configures, and that there is room for all.
    pub(super) fn check_hosts(
        &self,
        file: &FileText,
        several: &FunctionsOfHosts,
        most: usize,
    ) -> Result<(), FabricError> {
        let mut named = Vec::new();
        for hosts in file.switches.iter().flat_map(|switch| &switch.hosts) {
            let numbers = self.host_numbers(hosts)?;
            named.extend(numbers.map(|number| (number, hosts.span())));
        }
        for end in file.links.iter().flat_map(|link| &link.ends) {
            named.extend(host_number(end.get_ref()).map(|number| (number, end.span())));
        }
        let mut places = 0;
        for (number, span) in &named {
            places += several.get(number).map_or(1, |several| several.count);
            if places > most {
                return Err(FabricError::Places {
                    line: self.line(span),
                    name: format!("n{number}"),
                    places,
                    most,
                });
            }
        }
        let storms = file.storms.iter().map(|storm| &storm.host);
        let storms = storms.filter_map(|host| Some((host_number(host.get_ref())?, host.span())));
        let several = several.iter();
        let mut described = several
            .map(|(number, several)| (*number, several.span.clone()))
            .chain(storms);
        let is_unknown = |(number, _): &(usize, _)| named.iter().all(|(other, _)| other != number);
        match described.find(is_unknown) {
            Some((number, span)) => self.wrong(&span, format!("no switch names n{number}")),
            None => Ok(()),
        }
    }

    /// Returns the numbers of the hosts that a text names.
    pub(super) fn host_numbers(
        &self,
        name: &Spanned<String>,
    ) -> Result<RangeInclusive<usize>, FabricError> {
        match host_numbers(name.get_ref()) {
            Some(numbers) => Ok(numbers),
            None => {
                let what = format!("{:?} is no host, such as n0, or n0-n7", name.get_ref());
                self.wrong(&name.span(), what)
            }
        }
    }
}
