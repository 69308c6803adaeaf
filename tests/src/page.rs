//! Parts of pages that the tests generate from the code.

use std::fs;
use std::path::PathBuf;

/// Returns a part of a page between two comments, with its place.
fn part<'a>(text: &'a str, name: &str) -> (usize, &'a str) {
    let begin = format!("<!-- {name} -->\n");
    let start = text.find(&begin).expect("the page has the part") + begin.len();
    let length = text[start..].find("<!-- end -->").expect("it has an end");
    (start, &text[start..start + length])
}

/// Compares the part of `page` between the comments `name` and `end` with the output of the code;
/// with `FERROCE_UPDATE=1`, writes the part.
pub fn compare_part(page: &str, name: &str, fresh: &str) {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(page);
    let text = fs::read_to_string(&path).expect("the page exists");
    let (start, old) = part(&text, name);
    if std::env::var_os("FERROCE_UPDATE").is_some() {
        let end = start + old.len();
        let new = [&text[..start], fresh, &text[end..]].concat();
        fs::write(path, new).expect("the page can be written");
        return;
    }
    for (old, fresh) in old.lines().zip(fresh.lines()) {
        assert_eq!(old, fresh, "{page}, {name} (FERROCE_UPDATE=1 mends it)");
    }
    assert_eq!(old.lines().count(), fresh.lines().count(), "{fresh}");
}
