//! Relation of a target to the model: predicted by it, or used to choose its values.

use std::borrow::Cow;
use std::fmt;

/// How a target's figure and the values of its preset are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// No value of the preset was chosen from the figure: the model can be wrong.
    Predicted,
    /// A value was chosen from the figure, or from its difference to another one. A match shows
    /// only that such a value exists.
    Fitted,
    /// A value is the figure in another unit: the model always matches it, unless it is broken.
    Identity,
}

impl Kind {
    /// Every kind, in the order of a summary.
    pub const ALL: [Self; 3] = [Self::Predicted, Self::Fitted, Self::Identity];

    /// Returns the kind as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Predicted => "predicted",
            Self::Fitted => "fitted",
            Self::Identity => "identity",
        }
    }

    /// Returns true if a miss decides the exit status: a wrong prediction, or a broken model.
    pub fn is_decisive(self) -> bool {
        self != Self::Fitted
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.word())
    }
}

/// A parameter whose value was chosen from a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Section and name: `cache.qpc.ways`.
    pub key: &'static str,
    /// Words in the `source` of its value that state this.
    pub words: &'static str,
}

/// Kind of a target with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    /// The kind.
    pub kind: Kind,
    /// The reason, in one line.
    pub reason: Cow<'static, str>,
    /// The parameters whose values were chosen from the figure; empty for a prediction.
    pub chosen: &'static [Chosen],
}

impl Basis {
    /// Returns the basis of a target that is not part of the project.
    pub fn foreign() -> Self {
        Self {
            kind: Kind::Predicted,
            reason: Cow::Borrowed("measured outside of the project"),
            chosen: &[],
        }
    }
}

/// A missed target that is excused: the cause, and the error up to which it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excuse {
    /// The target.
    pub id: &'static str,
    /// The cause of the miss.
    pub cause: &'static str,
    /// Largest error in percent that the cause can explain; beyond it the target fails.
    pub bound_percent: f64,
}
