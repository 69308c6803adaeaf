//! Labels at the right of a plot: each next to its line, without overlap.

/// Height of a line of text.
const LINE: f64 = 15.0;

/// A text at the right edge.
#[derive(Clone, Debug)]
pub struct Label {
    /// Its text.
    pub text: String,
    /// Its class in the style sheet.
    pub class: String,
    /// The end of its line.
    pub from: (f64, f64),
    /// Its vertical position.
    pub y: f64,
}

/// Places each label as near to its line as the others allow, between `top` and `bottom`, and sorts
/// them from top to bottom.
pub fn spread(labels: &mut [Label], top: f64, bottom: f64) {
    labels.sort_by(|a, b| a.from.1.total_cmp(&b.from.1));
    let mut next = top;
    for label in labels.iter_mut() {
        label.y = label.from.1.max(next);
        next = label.y + LINE;
    }
    // Labels that are too low are moved up, with those above them.
    let mut limit = bottom;
    for label in labels.iter_mut().rev() {
        label.y = label.y.min(limit);
        limit = label.y - LINE;
    }
    center(labels, top);
}

/// Moves each group of labels that touch up by half of what its last one was moved down.
fn center(labels: &mut [Label], top: f64) {
    let mut begin = 0;
    while begin < labels.len() {
        let mut end = begin + 1;
        while end < labels.len() && labels[end].y - labels[end - 1].y < LINE + 0.5 {
            end += 1;
        }
        let moved: f64 = labels[begin..end]
            .iter()
            .map(|label| label.y - label.from.1)
            .sum();
        let above = if begin == 0 {
            top
        } else {
            labels[begin - 1].y + LINE
        };
        let up = (moved / (end - begin) as f64).clamp(0.0, (labels[begin].y - above).max(0.0));
        labels[begin..end]
            .iter_mut()
            .for_each(|label| label.y -= up);
        begin = end;
    }
}

/// Returns the approximate width of a text of 12 px.
pub fn width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread_at(places: &[f64]) -> Vec<f64> {
        let label = |y: &f64| Label {
            text: String::new(),
            class: String::new(),
            from: (0.0, *y),
            y: 0.0,
        };
        let mut labels: Vec<_> = places.iter().map(label).collect();
        spread(&mut labels, 0.0, 100.0);
        labels.iter().map(|label| label.y).collect()
    }

    #[test]
    fn labels_with_room_stay() {
        assert_eq!(spread_at(&[80.0, 20.0, 50.0]), [20.0, 50.0, 80.0]);
    }

    #[test]
    fn labels_of_one_place_stand_around_it() {
        assert_eq!(spread_at(&[50.0, 50.0, 50.0]), [35.0, 50.0, 65.0]);
    }

    #[test]
    fn labels_at_the_edges_stay_inside() {
        assert_eq!(spread_at(&[99.0, 100.0]), [85.0, 100.0]);
        assert_eq!(spread_at(&[0.0, 1.0]), [0.0, 15.0]);
    }
}
