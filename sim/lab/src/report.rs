//! The report: plots of model and measurement, and the page that shows them.
//!
//! - [`figures`]: the list of plots. [`figure`]: the contents of a plot. [`svg`], with [`axis`],
//!   [`labels`] and [`layout`], draws it; [`machine`] draws a topology; [`page`] puts all of them
//!   and the validation into one file.

pub mod axis;
pub mod figure;
pub mod figures;
pub mod labels;
pub mod layout;
pub mod machine;
pub mod page;
pub mod svg;

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use ferroce_model::preset::Preset;
use figure::Figure;
use figures::Recipe;
use figures::against::{self, Cards};
use figures::runs::{self, Run};
use page::{Card, Chapter};

use crate::cache::Cache;
use crate::perftest::RealPerftest;
use crate::reference::experiment::Simulator;
use crate::validate::blind::{self, Folder};
use crate::validate::{self, Outcome, parallel};

/// Results of [`make`].
pub struct Report {
    chapters: Vec<Chapter>,
    outcomes: Vec<Outcome>,
    cards: Vec<Card>,
}

/// One step of the work.
enum Job {
    Plot(Recipe),
    Target(String),
}

/// Result of a step.
enum Made {
    Plot(Recipe, Result<Box<Figure>, String>),
    Target(Vec<Outcome>),
}

/// Selection of plots; if empty, all of them and the validation.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Plots about these cards.
    pub presets: Vec<String>,
    /// Plots with these names.
    pub plots: Vec<String>,
    /// Runs the real perftest, and adds its plots.
    pub real: Option<RealPerftest>,
}

impl Choice {
    fn has(&self, recipe: &Recipe) -> bool {
        let is_named = self.plots.iter().any(|plot| plot == recipe.id);
        recipe.is_about(&self.presets) && (self.plots.is_empty() || is_named)
    }

    /// Fails for names that no plot has; the error lists the existing ones.
    pub fn check(&self) -> Result<(), String> {
        let recipes = recipes(true);
        let cards = names(recipes.iter().flat_map(|recipe| recipe.cards));
        for preset in &self.presets {
            let one = std::slice::from_ref(preset);
            if !recipes.iter().any(|recipe| recipe.is_about(one)) {
                return Err(format!(
                    "--preset {preset}: no plot is about it; plots are about these cards: \
                     {cards}. A preset of your own goes beside one of them with `--against`, and \
                     beside a measured table with `ferroce compare {preset} TABLE`"
                ));
            }
        }
        for plot in &self.plots {
            if !recipes.iter().any(|recipe| recipe.id == plot) {
                let plots = names(recipes.iter().map(|recipe| &recipe.id));
                return Err(format!(
                    "--plot {plot}: there is no such plot; there are {plots}"
                ));
            }
        }
        if jobs(self).is_empty() {
            Err(self.why_empty(&recipes))
        } else {
            Ok(())
        }
    }

    /// Returns the reason why existing names select no plot together.
    fn why_empty(&self, recipes: &[Recipe]) -> String {
        if recipes.iter().any(|recipe| self.has(recipe)) {
            return "the chosen plots are of the real perftest: add --perftest".to_owned();
        }
        let (plots, presets) = (self.plots.join(", "), self.presets.join(", "));
        format!("--plot {plots}: is not about --preset {presets}")
    }

    fn is_all(&self) -> bool {
        self.presets.is_empty() && self.plots.is_empty()
    }
}

/// Returns the number of steps of [`make`].
pub fn count(choice: &Choice) -> usize {
    jobs(choice).len()
}

/// Makes the plots of `choice`, over all cores; calls `done` after each step. Results are in the
/// order of the page.
pub fn make(simulator: &dyn Simulator, choice: &Choice, done: impl Fn() + Sync) -> Report {
    let cache = Cache::new(simulator);
    let made = parallel::map(&jobs(choice), |job| {
        let made = match job {
            Job::Plot(recipe) => {
                let figure = recipe.make(&cache, choice.real.as_ref().map(|real| real as _));
                Made::Plot(*recipe, figure.map(Box::new))
            }
            Job::Target(id) => {
                let only = std::slice::from_ref(id);
                Made::Target(validate::run(&cache, only))
            }
        };
        done();
        made
    });
    let mut report = Report {
        chapters: Vec::new(),
        outcomes: Vec::new(),
        cards: cards(),
    };
    made.into_iter().for_each(|made| report.add(made));
    report
}

/// Makes the report of a folder of measurements that is not part of the project; calls `done` after
/// each step.
pub fn make_blind(simulator: &dyn Simulator, folder: &Folder, done: impl Fn() + Sync) -> Report {
    let cache = Cache::new(simulator);
    let judgement = blind::run(&cache, folder, done);
    let tables: Vec<_> = folder.tables.iter().enumerate().collect();
    // The runs are in the cache.
    let figures = parallel::map(&tables, |(index, table)| {
        let named = |error: String| format!("{}: {error}", table.file);
        let id = format!("table-{}", index + 1);
        let mut figure = figures::blind::make(&cache, id, table).map_err(named)?;
        let preset = table.preset.name();
        let file = folder.path.join(&table.file);
        figure.commands = vec![format!(
            "ferroce compare {preset} --measured {}",
            file.display()
        )];
        let verdict = judgement.tables[*index].verdict();
        figure.caption.push_str(&format!(" Verdict: {verdict}."));
        Ok(figure)
    });
    let title = if judgement.about.is_empty() {
        "Measured tables".to_owned()
    } else {
        judgement.about
    };
    let chapter = Chapter {
        title,
        drawing: None,
        figures,
    };
    Report {
        chapters: Vec::from_iter((!chapter.figures.is_empty()).then_some(chapter)),
        outcomes: judgement.outcomes,
        cards: cards(),
    }
}

/// Makes the report that compares one card with another; calls `done` after each plot.
pub fn make_against(simulator: &dyn Simulator, cards: &Cards, done: impl Fn() + Sync) -> Report {
    let cache = Cache::new(simulator);
    let figures = parallel::map(&against::RECIPES, |recipe| {
        let figure = recipe.make(&cache, cards);
        done();
        figure
    });
    let [line, baseline] = [&cards.line, &cards.baseline].map(|(_, preset)| preset);
    let chapter = Chapter {
        title: format!("{} beside {}", line.name(), baseline.name()),
        drawing: None,
        figures,
    };
    let shown = [line, baseline].map(|preset| card(preset.clone()));
    Report {
        chapters: vec![chapter],
        outcomes: Vec::new(),
        cards: shown.into(),
    }
}

/// Number of plots of [`make_against`].
pub const AGAINST_COUNT: usize = against::RECIPES.len();

/// Makes the report of two runs; `command` is the command line that makes it.
///
/// # Errors
/// The runs have no point in common.
pub fn make_of_runs(a: &Run, b: &Run, command: &str) -> Result<Report, String> {
    let mut figures = runs::make(a, b)?;
    for figure in &mut figures {
        figure.commands = vec![command.to_owned()];
    }
    let chapter = Chapter {
        title: format!("{} beside {}", b.name, a.name),
        drawing: None,
        figures: figures.into_iter().map(Ok).collect(),
    };
    Ok(Report {
        chapters: vec![chapter],
        outcomes: Vec::new(),
        cards: Vec::new(),
    })
}

/// Returns every plot; the plots of the real perftest only if it is run.
fn recipes(has_real: bool) -> Vec<Recipe> {
    let real = has_real.then_some(figures::of_real_perftest());
    let recipes = figures::all().into_iter();
    recipes.chain(real.into_iter().flatten().copied()).collect()
}

/// Returns the names in alphabetical order, each once.
fn names<'a>(names: impl Iterator<Item = &'a &'static str>) -> String {
    let names: BTreeSet<&str> = names.copied().collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn jobs(choice: &Choice) -> Vec<Job> {
    let recipes = recipes(choice.real.is_some()).into_iter();
    let recipes = recipes.filter(|recipe| choice.has(recipe)).map(Job::Plot);
    let targets = validate::target::all().into_iter();
    let targets = targets.filter(|_| choice.is_all());
    recipes
        .chain(targets.map(|target| Job::Target(target.id)))
        .collect()
}

fn cards() -> Vec<Card> {
    let presets = Preset::names().filter_map(|name| Preset::load(name).ok());
    presets.map(card).collect()
}

fn card(preset: Preset) -> Card {
    Card {
        name: preset.name().to_owned(),
        about: preset.about().to_owned(),
        hash: preset.hash(),
    }
}

impl Report {
    fn add(&mut self, made: Made) {
        match made {
            Made::Target(outcomes) => self.outcomes.extend(outcomes),
            Made::Plot(recipe, figure) => {
                let figure = figure.map(|figure| *figure);
                let found = self.chapters.iter_mut().find(|c| c.title == recipe.chapter);
                match found {
                    Some(chapter) => chapter.figures.push(figure),
                    None => self.chapters.push(Chapter {
                        title: recipe.chapter.to_owned(),
                        drawing: figures::drawing_of(recipe.chapter),
                        figures: vec![figure],
                    }),
                }
            }
        }
    }

    /// Returns the plots that were made.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.chapters
            .iter()
            .flat_map(|chapter| &chapter.figures)
            .flatten()
    }

    /// Returns the reasons why the other plots could not be made.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        let figures = self.chapters.iter().flat_map(|chapter| &chapter.figures);
        figures.filter_map(|figure| figure.as_ref().err().map(String::as_str))
    }

    /// Writes `index.html`, and for each plot a picture and its figures, into `folder`.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        for figure in self.figures() {
            let file = |extension: &str| folder.join(format!("{}.{extension}", figure.id));
            fs::write(file("svg"), svg::file(figure))?;
            fs::write(file("csv"), figure.csv())?;
        }
        let page = page::page(&self.chapters, &self.outcomes, &self.cards);
        fs::write(folder.join("index.html"), page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::experiment::tests::Constant;

    const MODEL: Constant = Constant {
        rate_mpps: 7.0,
        latency_us: 1.6,
    };

    #[test]
    fn every_plot_can_be_made_and_has_its_own_name() {
        let report = make(&MODEL, &Choice::default(), || {});
        assert_eq!(report.problems().collect::<Vec<_>>(), [""; 0]);
        let mut names: Vec<_> = report.figures().map(|figure| figure.id.as_str()).collect();
        assert!(names.len() >= 8, "{names:?}");
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(report.outcomes.len(), validate::chosen(&[]).len());
        for figure in report.figures() {
            assert!(
                !figure.stamp.is_empty() && !figure.caption.is_empty(),
                "{}",
                figure.id
            );
        }
    }

    #[test]
    fn one_preset_has_its_own_plots() {
        let choice = Choice {
            presets: vec!["cx6-200g@epyc-hdr".to_owned()],
            ..Choice::default()
        };
        let report = make(&MODEL, &choice, || {});
        assert!(report.figures().all(|figure| figure.id.starts_with("cx6")));
        assert!(report.figures().count() > 2 && report.outcomes.is_empty());
    }
}
