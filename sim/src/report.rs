//! The report: plots of model and measurement, and the page that shows them.

pub mod axis;
pub mod figure;
pub mod json;
pub mod labels;
pub mod svg;
