//! What a target is to the model: predicted by it, or put into it.

use std::borrow::Cow;
use std::fmt;

/// How a target's figure and the values of its preset are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// No value of the preset was chosen from the figure: the model can be wrong.
    Predicted,
    /// A value was chosen from the figure, or from its difference to another one: that the model
    /// meets it shows only that there is such a value.
    Fitted,
    /// A value is the figure in another unit: the model meets it whatever else is in it, unless it
    /// is broken.
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

    /// Returns true if a miss of it decides the exit status: a wrong prediction, or a broken model.
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
    /// Words of the `source` of its value that say so.
    pub words: &'static str,
}

/// Kind of a target with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    /// The kind.
    pub kind: Kind,
    /// Why, in one line.
    pub reason: Cow<'static, str>,
    /// The parameters whose values were chosen from the figure; none of a prediction.
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

/// A missed target that is excused: why, and up to which error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Excuse {
    /// The target.
    pub id: &'static str,
    /// Why it is missed.
    pub cause: &'static str,
    /// Largest error in percent that the cause can explain; beyond it the target fails.
    pub bound_percent: f64,
}
