//! Names the places of a program, which its processes report as file and offset: function, source
//! file and line, as far as the debug information has them and `addr2line` of binutils is there.

use std::collections::BTreeMap;
use std::process::Command;

use ferroce_platform::explain::SITE_SEPARATOR;

/// Beginnings of the functions of verbs.h that are part of the program.
const OF_VERBS: [&str; 2] = ["ibv_", "__ibv_"];

/// Function, and file with line; `??` for what is not known.
#[derive(Clone)]
struct Place {
    function: String,
    line: String,
}

/// The places of calls: of inline functions several, the innermost first.
type Places = BTreeMap<String, Vec<Place>>;

/// Returns the names of these sites. A site that cannot be named keeps the form `FILE+0xOFFSET`,
/// without the folder.
pub fn named<'a>(sites: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let sites: Vec<&str> = sites.collect();
    let mut by_file: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for call in sites.iter().flat_map(|site| site.split(SITE_SEPARATOR)) {
        if let Some((file, offset)) = call.rsplit_once('+') {
            by_file.entry(file).or_default().push(offset);
        }
    }
    let mut places = Places::new();
    for (file, offsets) in by_file {
        for (offset, found) in offsets.iter().zip(ask(file, &offsets)) {
            places.insert(format!("{file}+{offset}"), found);
        }
    }
    let of = |site: &&str| ((*site).to_owned(), name(site, &places));
    sites.iter().map(of).collect()
}

/// Asks `addr2line` for each offset; returns none if it is not installed.
fn ask(file: &str, offsets: &[&str]) -> Vec<Vec<Place>> {
    let mut command = Command::new("addr2line");
    command.args(["-a", "-f", "-i", "-C", "-e", file]);
    let output = command.args(offsets).output().map(|output| output.stdout);
    parse(&String::from_utf8_lossy(&output.unwrap_or_default()))
}

/// Parses the output of `addr2line`: a line with an address, then two for each place.
fn parse(text: &str) -> Vec<Vec<Place>> {
    let mut found: Vec<Vec<Place>> = Vec::new();
    let mut lines = text.lines();
    while let Some(first) = lines.next() {
        if first.starts_with("0x") {
            found.push(Vec::new());
        } else if let (Some(places), Some(line)) = (found.last_mut(), lines.next()) {
            places.push(Place {
                function: first.to_owned(),
                line: line.to_owned(),
            });
        }
    }
    found
}

/// Returns the name of a site: the first of its places that is not in a function of verbs.h.
fn name(site: &str, places: &Places) -> String {
    let calls = || site.split(SITE_SEPARATOR);
    let known = calls().flat_map(|call| {
        let places = places.get(call).into_iter().flatten();
        places.map(move |place| (call, place))
    });
    let is_own = |(_, place): &(&str, &Place)| {
        !OF_VERBS
            .iter()
            .any(|begin| place.function.starts_with(begin))
    };
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let own = known.into_iter().find(is_own);
    let Some((call, place)) = own.filter(|(_, place)| place.function != "??") else {
        return last(calls().next().unwrap_or_default());
    };
    let line = place.line.split(" (discriminator").next();
    match line.unwrap_or_default() {
        line if line.contains('?') => format!("{}, {}", place.function, last(call)),
        line => format!("{}, {}", place.function, last(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the name of a site whose call is in this place, and another in one of verbs.h.
    fn said(site: &str, function: &str, line: &str) -> String {
        let text = format!(
            "0x0012\n{function}\n{line}\n0x0099\n__ibv_reg_mr\nverbs.h:2550\n\
             0x0077\n__ibv_reg_mr\nverbs.h:2550\ncopy\nb.c:9\n"
        );
        let calls = ["a.out+0x12", "a.out+0x99", "a.out+0x77"];
        let calls = calls.map(|call| format!("/tmp/{call}"));
        name(site, &calls.into_iter().zip(parse(&text)).collect())
    }

    #[test]
    fn what_is_known_of_a_place_is_shown() {
        let site = "/tmp/a.out+0x12";
        let line = "/src/a.c:7 (discriminator 2)";
        assert_eq!(said(site, "main", line), "main, a.c:7");
        assert_eq!(said(site, "main", "??:?"), "main, a.out+0x12");
        assert_eq!(said(site, "??", "??:0"), "a.out+0x12");
        let site = "/tmp/a.out+0x99|/tmp/a.out+0x12";
        assert_eq!(said(site, "main", line), "main, a.c:7");
        assert_eq!(said("/tmp/a.out+0x77", "main", line), "copy, b.c:9");
    }

    #[test]
    fn a_file_that_is_not_there_leaves_the_offset() {
        let names = named(["/no/such/file+0x12"].into_iter());
        assert_eq!(names["/no/such/file+0x12"], "file+0x12");
    }
}
