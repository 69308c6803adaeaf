//! Lines of `ferroce run --explain-errors`.

/// Returns a text without the calls at the ends of lines, which depend on the compiler and on its
/// options; queue pairs stay.
#[must_use]
pub fn without_calls(text: &str) -> String {
    text.split_inclusive('\n').map(line_without_calls).collect()
}

fn line_without_calls(line: &str) -> String {
    let (body, end) = match line.strip_suffix('\n') {
        Some(body) => (body, "\n"),
        None => (line, ""),
    };
    let Some((text, place)) = body
        .strip_suffix(']')
        .and_then(|body| body.rsplit_once(" ["))
    else {
        return line.to_owned();
    };
    let parts: Vec<_> = place
        .split(", ")
        .filter(|part| part.contains("QP"))
        .collect();
    if parts.is_empty() {
        format!("{text}{end}")
    } else {
        format!("{text} [{}]{end}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_pairs_stay() {
        let text = "a [QP 0x5, QP 0x6, in main, a.c:7]\nb [in main, a.out+0x12]\nc\n";
        assert_eq!(without_calls(text), "a [QP 0x5, QP 0x6]\nb\nc\n");
    }
}
