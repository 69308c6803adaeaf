//! Fabrics as TOML files. Error messages name the line.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use ferroce_model::congestion::dcqcn::DcqcnParameters;
use ferroce_model::congestion::{Algorithm, CongestionConfig, NotificationConfig};
use ferroce_units::{Duration, Instant};
use serde::Deserialize;
use toml::Spanned;

use super::{
    DEFAULT_ECN, FabricError, FabricPlan, LinkPlan, MAX_FUNCTIONS, MarkCurve, Node, PathChoice,
    PauseStorm, PfcPlan, SwitchPlan,
};

mod hosts;

/// Highest number of a host in a file.
const MAX_HOST: usize = 65_535;
const NS_RANGE: RangeInclusive<f64> = 0.0..=1e9;
const GBPS_RANGE: RangeInclusive<f64> = 0.1..=10_000.0;

/// A file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    #[serde(default)]
    path_choice: PathText,
    #[serde(default)]
    switch: SettingsText,
    switches: Vec<SwitchText>,
    #[serde(default)]
    links: Vec<LinkText>,
    #[serde(default)]
    hosts: Vec<HostText>,
    congestion: Option<CongestionText>,
    #[serde(default)]
    storms: Vec<StormText>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PathText {
    #[default]
    Flow,
    Packet,
}

/// Settings of a switch; missing ones are taken from the settings of all switches.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SettingsText {
    latency_ns: Option<Spanned<f64>>,
    buffer_bytes: Option<u64>,
    alpha: Option<f64>,
    ecn: EcnText,
    pfc: PfcText,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct EcnText {
    enabled: Option<bool>,
    kmin_bytes: Option<u64>,
    kmax_bytes: Option<u64>,
    pmax: Option<f64>,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PfcText {
    enabled: Option<bool>,
    priorities: Option<Vec<u8>>,
    xoff_bytes: Option<u64>,
    alpha: Option<f64>,
    xon_offset_bytes: Option<u64>,
    headroom_bytes: Option<u64>,
}

// `flatten` would lose the lines of errors, so the settings are repeated.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchText {
    name: Spanned<String>,
    #[serde(default)]
    hosts: Vec<Spanned<String>>,
    latency_ns: Option<Spanned<f64>>,
    buffer_bytes: Option<u64>,
    alpha: Option<f64>,
    #[serde(default)]
    ecn: EcnText,
    #[serde(default)]
    pfc: PfcText,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkText {
    ends: [Spanned<String>; 2],
    rate_gbps: Option<Spanned<f64>>,
    cable_ns: Option<Spanned<f64>>,
}

/// Settings of particular hosts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostText {
    name: Spanned<String>,
    functions: Spanned<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StormText {
    host: Spanned<String>,
    priority: Spanned<u64>,
    from_us: u64,
    until_us: u64,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AlgorithmText {
    #[default]
    Dcqcn,
    None,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ProfileText {
    #[default]
    ConnectX,
    Sigcomm2015,
}

/// Congestion control of the cards, with the names of `mlxconfig`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CongestionText {
    algorithm: AlgorithmText,
    profile: ProfileText,
    min_time_between_cnps: Option<Spanned<u64>>,
    cnp_dscp: Option<Spanned<u64>>,
    rpg_time_reset: Option<Spanned<u64>>,
    rpg_byte_reset: Option<Spanned<u64>>,
    rpg_threshold: Option<Spanned<u64>>,
    rpg_max_rate: Option<Spanned<u64>>,
    rpg_ai_rate: Option<Spanned<u64>>,
    rpg_hai_rate: Option<Spanned<u64>>,
    rpg_gd: Option<Spanned<u64>>,
    rpg_min_dec_fac: Option<Spanned<u64>>,
    rpg_min_rate: Option<Spanned<u64>>,
    rate_to_set_on_first_cnp: Option<Spanned<u64>>,
    dce_tcp_g: Option<Spanned<u64>>,
    dce_tcp_rtt: Option<Spanned<u64>>,
    rate_reduce_monitor_period: Option<Spanned<u64>>,
    initial_alpha_value: Option<Spanned<u64>>,
    clamp_tgt_rate: Option<bool>,
    clamp_tgt_rate_after_time_inc: Option<bool>,
}

/// A file, used to find the lines of errors.
struct Reader<'a> {
    text: &'a str,
}

/// Parses the text of a file, for a fabric with room for `most` hosts and functions.
pub(super) fn parse(text: &str, most: usize) -> Result<FabricPlan, FabricError> {
    let file: FileText = toml::from_str(text).map_err(|error| FabricError::File {
        message: error.to_string().trim_end().to_owned(),
    })?;
    let reader = Reader { text };
    let several = reader.functions(&file)?;
    reader.check_hosts(&file, &several, most)?;
    let plan = FabricPlan {
        switches: reader.switches(&file)?,
        links: reader.links(&file)?,
        multi_function: Vec::new(),
        path_choice: match file.path_choice {
            PathText::Flow => PathChoice::Flow,
            PathText::Packet => PathChoice::Packet,
        },
        congestion: file
            .congestion
            .as_ref()
            .map(|congestion| reader.congestion(congestion))
            .transpose()?,
        storms: reader.storms(&file)?,
    };
    plan.check()?;
    let several = several.iter().filter(|(_, several)| several.count > 1);
    Ok(several.fold(plan, |plan, (number, several)| {
        plan.with_functions(*number, several.count)
    }))
}

impl Reader<'_> {
    fn wrong<T>(&self, span: &Range<usize>, what: String) -> Result<T, FabricError> {
        let line = self.line(span);
        Err(FabricError::Line { line, what })
    }

    /// Returns the line in which a part of the text begins.
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        before.matches('\n').count() + 1
    }

    fn switches(&self, file: &FileText) -> Result<Vec<SwitchPlan>, FabricError> {
        let mut switches: Vec<SwitchPlan> = Vec::new();
        for text in &file.switches {
            let name = text.name.get_ref();
            if name.is_empty() || host_number(name).is_some() {
                let what = format!("{name:?} is no name of a switch: it could be a host's");
                return self.wrong(&text.name.span(), what);
            }
            if switches.iter().any(|other| other.name == *name) {
                return self.wrong(
                    &text.name.span(),
                    format!("there are two switches {name:?}"),
                );
            }
            let own = SettingsText {
                latency_ns: text.latency_ns.clone(),
                buffer_bytes: text.buffer_bytes,
                alpha: text.alpha,
                ecn: text.ecn.clone(),
                pfc: text.pfc.clone(),
            };
            switches.push(self.switch(name, &own, &file.switch)?);
        }
        Ok(switches)
    }

    fn switch(
        &self,
        name: &str,
        own: &SettingsText,
        all: &SettingsText,
    ) -> Result<SwitchPlan, FabricError> {
        let usual = SwitchPlan::new(name);
        let latency = own.latency_ns.as_ref().or(all.latency_ns.as_ref());
        Ok(SwitchPlan {
            latency: latency
                .map(|ns| self.nanoseconds("latency_ns", ns))
                .transpose()?,
            buffer_bytes: own
                .buffer_bytes
                .or(all.buffer_bytes)
                .unwrap_or(usual.buffer_bytes),
            alpha: own.alpha.or(all.alpha).unwrap_or(usual.alpha),
            ecn: ecn(&own.ecn, &all.ecn),
            pfc: pfc(&own.pfc, &all.pfc),
            ..usual
        })
    }

    fn links(&self, file: &FileText) -> Result<Vec<LinkPlan>, FabricError> {
        let mut links = Vec::new();
        for (switch, text) in file.switches.iter().enumerate() {
            for hosts in &text.hosts {
                let numbers = self.host_numbers(hosts)?;
                let ends = numbers.map(|host| [Node::Host(host), Node::Switch(switch)]);
                links.extend(ends.map(LinkPlan::new));
            }
        }
        for text in &file.links {
            let [one, other] = &text.ends;
            let rate_gbps = match &text.rate_gbps {
                None => None,
                Some(rate) => Some(self.within("rate_gbps", rate, &GBPS_RANGE)?),
            };
            links.push(LinkPlan {
                ends: [self.node(file, one)?, self.node(file, other)?],
                rate_gbps,
                cable: text
                    .cable_ns
                    .as_ref()
                    .map(|ns| self.nanoseconds("cable_ns", ns))
                    .transpose()?,
            });
        }
        Ok(links)
    }

    fn node(&self, file: &FileText, end: &Spanned<String>) -> Result<Node, FabricError> {
        let name = end.get_ref();
        if let Some(host) = host_number(name) {
            return Ok(Node::Host(host));
        }
        let is_name = |switch: &SwitchText| switch.name.get_ref() == name;
        match file.switches.iter().position(is_name) {
            Some(switch) => Ok(Node::Switch(switch)),
            None => self.wrong(&end.span(), format!("there is no switch {name:?}")),
        }
    }

    fn storms(&self, file: &FileText) -> Result<Vec<PauseStorm>, FabricError> {
        let mut storms = Vec::new();
        for text in &file.storms {
            let Some(host) = host_number(text.host.get_ref()) else {
                let what = format!("{:?} is no host, such as n0", text.host.get_ref());
                return self.wrong(&text.host.span(), what);
            };
            storms.push(PauseStorm {
                host,
                priority: self.within("priority", &text.priority, &(0..=7))? as u8,
                from: Instant::from_us(text.from_us),
                until: Instant::from_us(text.until_us),
            });
        }
        Ok(storms)
    }

    fn congestion(&self, text: &CongestionText) -> Result<CongestionConfig, FabricError> {
        let number = |key, value: &Option<Spanned<u64>>, range: RangeInclusive<u64>, usual: u64| {
            let value = value.as_ref();
            value.map_or(Ok(usual), |value| self.within(key, value, &range))
        };
        let (usual, gap) = match text.profile {
            ProfileText::ConnectX => (
                DcqcnParameters::CONNECTX,
                NotificationConfig::CONNECTX.min_time_between_cnps,
            ),
            ProfileText::Sigcomm2015 => (DcqcnParameters::SIGCOMM_2015, Duration::from_us(50)),
        };
        let us = |duration: Duration| duration.as_ns() / 1000;
        let gap = number(
            "min_time_between_cnps",
            &text.min_time_between_cnps,
            0..=4095,
            us(gap),
        )?;
        let dscp = NotificationConfig::CONNECTX.cnp_dscp;
        let dscp = number("cnp_dscp", &text.cnp_dscp, 0..=63, dscp.into())?;
        let algorithm = match text.algorithm {
            AlgorithmText::None => Algorithm::None,
            AlgorithmText::Dcqcn => Algorithm::Dcqcn(self.dcqcn(text, &usual)?),
        };
        Ok(CongestionConfig {
            notification: NotificationConfig {
                min_time_between_cnps: Duration::from_us(gap),
                cnp_dscp: dscp as u8,
            },
            algorithm,
        })
    }

    fn dcqcn(
        &self,
        text: &CongestionText,
        usual: &DcqcnParameters,
    ) -> Result<DcqcnParameters, FabricError> {
        const TIME: RangeInclusive<u64> = 1..=1_000_000;
        const RATE: RangeInclusive<u64> = 0..=1_000_000;
        let mut found = usual.clone();
        macro_rules! counts {
            ($( $key:ident, $range:expr => $field:ident; )+) => {
                $( if let Some(value) = &text.$key {
                    found.$field = self.within(stringify!($key), value, &$range)? as _;
                } )+
            };
        }
        macro_rules! times {
            ($( $key:ident => $field:ident; )+) => {
                $( if let Some(value) = &text.$key {
                    let us = self.within(stringify!($key), value, &TIME)?;
                    found.$field = Duration::from_us(us);
                } )+
            };
        }
        counts! {
            rpg_threshold, 1..=31 => threshold;
            rpg_max_rate, RATE => max_rate_mbps;
            rpg_ai_rate, 1..=1_000_000 => ai_rate_mbps;
            rpg_hai_rate, 1..=1_000_000 => hai_rate_mbps;
            rpg_gd, 0..=15 => gd;
            rpg_min_dec_fac, 1..=100 => min_dec_fac_percent;
            rpg_min_rate, 1..=1_000_000 => min_rate_mbps;
            rate_to_set_on_first_cnp, RATE => rate_to_set_on_first_cnp_mbps;
            dce_tcp_g, 0..=1023 => dce_tcp_g;
            initial_alpha_value, 1..=1023 => initial_alpha_value;
        }
        times! {
            rpg_time_reset => time_reset;
            dce_tcp_rtt => dce_tcp_rtt;
            rate_reduce_monitor_period => rate_reduce_monitor_period;
        }
        if let Some(value) = &text.rpg_byte_reset {
            let bytes = self.within("rpg_byte_reset", value, &(0..=u64::from(u32::MAX)))?;
            found.byte_reset = (bytes > 0).then_some(bytes);
        }
        found.clamp_tgt_rate = text.clamp_tgt_rate.unwrap_or(found.clamp_tgt_rate);
        let after_time = text.clamp_tgt_rate_after_time_inc;
        found.clamp_tgt_rate_after_time_inc =
            after_time.unwrap_or(found.clamp_tgt_rate_after_time_inc);
        Ok(found)
    }

    fn nanoseconds(&self, key: &str, value: &Spanned<f64>) -> Result<Duration, FabricError> {
        let ns = self.within(key, value, &NS_RANGE)?;
        Ok(Duration::from_ps((ns * 1000.0).round() as u64))
    }

    /// Returns a number if it is in its range.
    fn within<T: Copy + PartialOrd + fmt::Display>(
        &self,
        key: &str,
        value: &Spanned<T>,
        range: &RangeInclusive<T>,
    ) -> Result<T, FabricError> {
        let number = *value.get_ref();
        if range.contains(&number) {
            return Ok(number);
        }
        let (low, high) = (range.start(), range.end());
        self.wrong(
            &value.span(),
            format!("{key} = {number} is not from {low} to {high}"),
        )
    }
}

fn ecn(own: &EcnText, all: &EcnText) -> Option<MarkCurve> {
    let is_on = own.enabled.or(all.enabled).unwrap_or(true);
    is_on.then(|| MarkCurve {
        kmin_bytes: own
            .kmin_bytes
            .or(all.kmin_bytes)
            .unwrap_or(DEFAULT_ECN.kmin_bytes),
        kmax_bytes: own
            .kmax_bytes
            .or(all.kmax_bytes)
            .unwrap_or(DEFAULT_ECN.kmax_bytes),
        pmax: own.pmax.or(all.pmax).unwrap_or(DEFAULT_ECN.pmax),
    })
}

fn pfc(own: &PfcText, all: &PfcText) -> Option<PfcPlan> {
    let usual = PfcPlan::default();
    let is_on = own.enabled.or(all.enabled).unwrap_or(true);
    let priorities = own.priorities.clone().or_else(|| all.priorities.clone());
    is_on.then(|| PfcPlan {
        priorities: priorities.unwrap_or(usual.priorities),
        xoff_bytes: own.xoff_bytes.or(all.xoff_bytes),
        alpha: own.alpha.or(all.alpha).unwrap_or(usual.alpha),
        xon_offset_bytes: own
            .xon_offset_bytes
            .or(all.xon_offset_bytes)
            .unwrap_or(usual.xon_offset_bytes),
        headroom_bytes: own.headroom_bytes.or(all.headroom_bytes),
    })
}

/// Returns the number of the host nNUMBER.
fn host_number(name: &str) -> Option<usize> {
    let number = name.strip_prefix('n')?.parse().ok()?;
    (number <= MAX_HOST).then_some(number)
}

/// Returns the numbers of the hosts that nNUMBER or nFIRST-nLAST names.
fn host_numbers(name: &str) -> Option<RangeInclusive<usize>> {
    let (first, last) = name.split_once('-').unwrap_or((name, name));
    let (first, last) = (host_number(first)?, host_number(last)?);
    (first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use ferroce_model::preset::Preset;

    use super::*;
    use crate::{World, WorldConfig};

    const ROOM: usize = 64;

    const TWO_TIER: &str = r#"
path_choice = "packet"

[switch]
buffer_bytes = 16000000
pfc.priorities = [3]

[[switches]]
name = "leaf0"
hosts = ["n0-n1"]

[[switches]]
name = "leaf1"
hosts = ["n2", "n3"]
ecn = { kmin_bytes = 5000, pmax = 0.5 }
pfc.enabled = false

[[switches]]
name = "spine"
latency_ns = 250.5

[[links]]
ends = ["leaf0", "spine"]

[[links]]
ends = ["leaf1", "spine"]
rate_gbps = 40
cable_ns = 100

[congestion]
profile = "sigcomm2015"
rpg_ai_rate = 20

[[storms]]
host = "n3"
priority = 3
from_us = 10
until_us = 20
"#;

    #[test]
    fn a_file_says_what_the_plan_is() {
        let plan = parse(TWO_TIER, ROOM).expect("a fabric");
        assert_eq!((plan.hosts(), plan.links.len()), (4, 6));
        assert_eq!(plan.path_choice, PathChoice::Packet);
        let [leaf0, leaf1, spine] = &plan.switches[..] else {
            panic!("three switches");
        };
        assert_eq!(leaf0.ecn, Some(DEFAULT_ECN));
        let protected = leaf0.pfc.as_ref().map(|pfc| pfc.priorities.clone());
        assert_eq!(protected, Some(vec![3]));
        let curve = leaf1.ecn.expect("it marks");
        assert_eq!(
            (curve.kmin_bytes, curve.kmax_bytes, curve.pmax),
            (5000, 1_600_000, 0.5)
        );
        assert_eq!((leaf1.pfc.clone(), leaf1.buffer_bytes), (None, 16_000_000));
        assert_eq!(spine.latency, Some(Duration(250_500)));
        assert_eq!(plan.links[5].rate_gbps, Some(40.0));
        let congestion = plan.congestion.expect("congestion control");
        let Algorithm::Dcqcn(dcqcn) = congestion.algorithm else {
            panic!("DCQCN");
        };
        assert_eq!((dcqcn.ai_rate_mbps, dcqcn.threshold), (20, 5));
        assert_eq!(plan.storms[0].until, Instant::from_us(20));
    }

    #[test]
    fn messages_name_the_line() {
        let cases = [
            (
                ("n2\"", "x2\""),
                "line 14: \"x2\" is no host, such as n0, or n0-n7",
            ),
            (
                ("\"spine\"]", "\"spin\"]"),
                "line 23: there is no switch \"spin\"",
            ),
            (
                ("name = \"leaf1\"", "name = \"leaf0\""),
                "line 13: there are two switches \"leaf0\"",
            ),
            (
                ("= 40", "= 0"),
                "line 27: rate_gbps = 0 is not from 0.1 to 10000",
            ),
            (
                ("rate = 20", "rate = 0"),
                "line 32: rpg_ai_rate = 0 is not from 1 to 1000000",
            ),
            (
                ("priority = 3", "priority = 8"),
                "line 36: priority = 8 is not from 0 to 7",
            ),
            (("n3\"]", "n4\"]"), "line 35: no switch names n3"),
            (
                ("pmax = 0.5", "pmax = 2.0"),
                "switch leaf1: ecn.pmax is not from 0 to 1",
            ),
        ];
        for ((old, new), expected) in cases {
            let text = TWO_TIER.replacen(old, new, 1);
            let error = parse(&text, ROOM).expect_err(new);
            assert_eq!(error.to_string(), expected);
        }
        let unknown = TWO_TIER.replace("kmin_bytes", "kmin");
        let error = parse(&unknown, ROOM)
            .expect_err("an unknown key")
            .to_string();
        assert!(
            error.contains("line 15") && error.contains("kmin_bytes"),
            "{error}"
        );
    }

    /// Two hosts with several functions, and two plain ones.
    const FUNCTIONS: &str = r#"
[[hosts]]
name = "n1"
functions = 3

[[hosts]]
name = "n3"
functions = 2

[[switches]]
name = "leaf"
hosts = ["n0-n2"]

[[links]]
ends = ["leaf", "n3"]
cable_ns = 70

[[storms]]
host = "n3"
priority = 3
from_us = 10
until_us = 20
"#;

    #[test]
    fn functions_are_hosts_behind_an_embedded_switch() {
        let plan = parse(FUNCTIONS, ROOM).expect("a fabric");
        assert_eq!(plan.hosts(), 7);
        let places: Vec<_> = (0..7).map(|host| plan.place_of(host)).collect();
        let (several, one) = (|number, function| (number, Some(function)), None);
        assert_eq!(
            places,
            [
                (0, one),
                several(1, 0),
                several(1, 1),
                several(1, 2),
                (2, one),
                several(3, 0),
                several(3, 1),
            ]
        );
        let names = plan.switches.iter().map(|switch| &switch.name[..]);
        assert_eq!(names.collect::<Vec<_>>(), ["leaf", "n1", "n3"]);
        let ends: Vec<_> = plan.links.iter().map(|link| link.ends).collect();
        let (host, switch) = (Node::Host, Node::Switch);
        assert_eq!(
            ends,
            [
                [host(0), switch(0)],
                [switch(1), switch(0)],
                [host(4), switch(0)],
                [switch(0), switch(2)],
                [host(1), switch(1)],
                [host(2), switch(1)],
                [host(3), switch(1)],
                [host(5), switch(2)],
                [host(6), switch(2)],
            ]
        );
        assert_eq!(plan.links[4].cable, Some(Duration::ZERO));
        assert_eq!(plan.links[3].cable, Some(Duration::from_ns(70)));
        assert_eq!(plan.storms[0].host, 5);
        // A number of one has no effect.
        let one = FUNCTIONS.replace("functions = 3", "functions = 1");
        let one = parse(&one, ROOM).expect("a fabric");
        assert_eq!((one.hosts(), one.place_of(1)), (5, (1, None)));
    }

    #[test]
    fn messages_about_functions_name_the_line() {
        let cases = [
            (
                ("functions = 3", "functions = 33"),
                "line 4: functions = 33 is not from 1 to 32",
            ),
            (
                ("functions = 3", "functions = 0"),
                "line 4: functions = 0 is not from 1 to 32",
            ),
            (
                ("name = \"n1\"", "name = \"leaf\""),
                "line 3: \"leaf\" is no host, such as n0, or n0-n7",
            ),
            (
                ("name = \"n1\"", "name = \"n3\""),
                "line 7: the functions of n3 are given twice",
            ),
            (
                ("name = \"n1\"", "name = \"n4\""),
                "line 3: no switch names n4",
            ),
            (
                ("host = \"n3\"", "host = \"n4\""),
                "line 19: no switch names n4",
            ),
            (
                ("n0-n2", "n0-n3"),
                "host n3 has 2 links; each host from n0 on has one",
            ),
            (
                ("\"leaf\", \"n3\"", "\"n2\", \"n3\""),
                "a link joins two hosts; in a fabric, a host is joined to a switch",
            ),
        ];
        for ((old, new), expected) in cases {
            let text = FUNCTIONS.replacen(old, new, 1);
            let error = parse(&text, ROOM).expect_err(new);
            assert_eq!(error.to_string(), expected);
        }
        for (room, expected) in [
            (
                6,
                "line 15: with n3 the fabric has 7 hosts and functions; there is room for 6",
            ),
            (
                3,
                "line 12: with n1 the fabric has 4 hosts and functions; there is room for 3",
            ),
        ] {
            let error = parse(FUNCTIONS, room).expect_err("too many");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn the_cable_of_functions_has_the_rate_of_the_card() {
        let text = FUNCTIONS.replace("cable_ns = 70", "rate_gbps = 40");
        let plan = parse(&text, ROOM).expect("it depends on the card");
        let preset = Preset::load("cx5-100g").expect("built in");
        let config = WorldConfig {
            fabric: Some(plan.clone()),
            ..WorldConfig::timed(preset, plan.hosts())
        };
        let error = World::new(&config).expect_err("another rate");
        assert_eq!(
            error.to_string(),
            "the fabric: the link of host n3 has the rate of its card, which the preset says"
        );
    }
}
