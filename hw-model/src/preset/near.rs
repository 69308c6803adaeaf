//! "Did you mean": suggests similar names.

/// Maximum number of suggestions.
const PROPOSALS: usize = 3;

/// Number of letters that identify a name by its beginning.
const SHORTEST_BEGINNING: usize = 3;

/// Returns the end of a sentence that suggests names of `known` similar to `wrong`; empty if there
/// is none.
pub(super) fn did_you_mean<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> String {
    let limit = 1 + wrong.chars().count() / 3;
    let mut near: Vec<(usize, &str)> = known
        .map(|name| (distance(wrong, name), name))
        .filter(|&(distance, name)| {
            let begins = wrong.len() >= SHORTEST_BEGINNING && name.starts_with(wrong);
            begins || distance <= limit || last_part(name) == last_part(wrong)
        })
        .collect();
    near.sort_unstable();
    near.truncate(PROPOSALS);
    if near.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = near.into_iter().map(|(_, name)| name).collect();
    format!(" (did you mean {}?)", names.join(" or "))
}

fn last_part(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Longer names are never similar to a known one; this bounds the work for a hostile name.
const LONGEST: usize = 64;

/// Returns the number of letters to insert, delete or replace to turn `left` into `right`
/// (Levenshtein).
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(LONGEST).collect();
    let right: Vec<char> = right.chars().take(LONGEST).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_letters() {
        assert_eq!(distance("", ""), 0);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("cx5-100g", "cx6-100g"), 1);
    }

    #[test]
    fn proposes_the_same_name_of_other_sections() {
        let known = ["cache.mtt.log_sets", "clock.core_mhz"];
        assert_eq!(
            did_you_mean("log_sets", known.into_iter()),
            " (did you mean cache.mtt.log_sets?)"
        );
        assert_eq!(did_you_mean("zzzzzz", known.into_iter()), "");
    }
}
