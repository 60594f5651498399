//! Tables that hold algorithms at two places against each other: placement.csv and multi_node.csv.

use super::Paper;
use super::detail::{Effect, Implied};
use super::machine::{Model, OUTPUT_TOKENS};
use super::published::{Place, R2R_P, throughput_at};
use super::report::{Cell, Parameter, TableReport};
use super::routed::{Algorithm, fitted};
use super::setting::{Routing, Setting};
use crate::failure::Failure;

/// Concurrencies of both tables.
const CONCURRENCY: [u32; 2] = [1, 4];

/// A table of algorithms at two places, and how its cells become settings.
pub(super) struct Places<'a> {
    pub(super) rows: &'a [Place],
    /// Routing probabilities are fitted at the first place, at concurrency 1.
    pub(super) places: [&'static str; 2],
    /// What stands before a place in columns.
    pub(super) prefix: &'static str,
    /// What the second place over the first one is called.
    pub(super) effect: &'static str,
    pub(super) algorithms: &'a [Algorithm],
    /// The models at the first place.
    pub(super) models: [Model; 2],
    /// The setting of a place, a routing and a concurrency.
    pub(super) setting: &'a dyn Fn(&str, Routing, u32) -> Setting,
}

impl Places<'_> {
    /// The cells, and the routing probabilities that they were predicted with.
    pub(super) fn predict(&self, paper: &Paper) -> Result<(Vec<Cell>, Vec<Parameter>), Failure> {
        let (mut cells, mut parameters) = (Vec::new(), Vec::new());
        for &algorithm in self.algorithms {
            let routing = self.routing(algorithm);
            if algorithm != Algorithm::R2r {
                let (name, value) = fitted(algorithm, routing);
                let on = format!("concurrency 1, {}, {}{}", algorithm.name(), self.prefix, self.places[0]);
                parameters.push(Parameter::new(&name, value, "", &on));
            }
            for place in self.places {
                for concurrency in CONCURRENCY {
                    cells.push(self.cell(paper, algorithm, routing, place, concurrency)?);
                }
            }
        }
        Ok((cells, parameters))
    }

    fn cell(
        &self,
        paper: &Paper,
        algorithm: Algorithm,
        routing: Routing,
        place: &str,
        concurrency: u32,
    ) -> Result<Cell, Failure> {
        let setting = (self.setting)(place, routing, concurrency);
        let cell = |predicted: f64| {
            let published = throughput_at(self.rows, place, concurrency, algorithm);
            let column = self.column(place, concurrency);
            let panel = format!("{}{place}", self.prefix);
            Cell::new(algorithm.name(), &column, published, predicted).at(
                &panel,
                algorithm.name(),
                f64::from(concurrency),
            )
        };
        if concurrency == 1 {
            // The first place fits routing, and R2R at the second one what the places differ by.
            let is_calibrated = place == self.places[0] || algorithm == Algorithm::R2r;
            return Ok(cell(setting.alone()).calibrated(is_calibrated));
        }
        let (threshold, played) = paper.player.best(&setting)?;
        Ok(cell(played.throughput).with_threshold(threshold))
    }

    /// The routing of an algorithm, from the first place at concurrency 1; R2R has its published one.
    fn routing(&self, algorithm: Algorithm) -> Routing {
        match algorithm {
            Algorithm::R2r => Routing::Detour { p: R2R_P },
            _ => {
                let throughput = throughput_at(self.rows, self.places[0], 1, algorithm);
                algorithm.routing(&self.models, throughput, OUTPUT_TOKENS)
            }
        }
    }

    /// What a token takes longer at the second place than at the first one, ms, published at concurrency 1.
    fn extra_ms(&self, algorithm: Algorithm) -> f64 {
        let [first_ms, second_ms] = self.places.map(|place| 1e3 / throughput_at(self.rows, place, 1, algorithm));
        second_ms - first_ms
    }

    /// What each algorithm alone would give for a parameter, of which a token pays `per_token`, fitted on `extra_ms` times `sign`.
    pub(super) fn implied(
        &self,
        parameter: &'static str,
        sign: f64,
        per_token: impl Fn(Routing) -> f64,
    ) -> Vec<Implied> {
        let of = |&algorithm: &Algorithm| {
            let value = sign * self.extra_ms(algorithm) / per_token(self.routing(algorithm));
            Implied { parameter, value, unit: "ms", by: algorithm.name().to_owned(), cell: "concurrency 1".to_owned() }
        };
        self.algorithms.iter().map(of).collect()
    }

    /// The second place over the first one, by algorithm and concurrency.
    pub(super) fn effects(&self, report: &TableReport) -> Vec<Effect> {
        let cell = |algorithm: Algorithm, place: &str, concurrency: u32| {
            report.cell(algorithm.name(), &self.column(place, concurrency))
        };
        let of = |concurrency: u32, algorithm: Algorithm| {
            let [first, second] = self.places.map(|place| cell(algorithm, place, concurrency));
            Effect::new(self.effect, algorithm.name(), concurrency, second, first)
        };
        CONCURRENCY
            .into_iter()
            .flat_map(|concurrency| self.algorithms.iter().map(move |&algorithm| of(concurrency, algorithm)))
            .collect()
    }

    fn column(&self, place: &str, concurrency: u32) -> String {
        format!("{}{place}, concurrency {concurrency}", self.prefix)
    }
}

/// The effects at a concurrency, in words.
pub(super) fn effect_words(effects: &[Effect], concurrency: u32) -> String {
    let words: Vec<String> =
        effects.iter().filter(|effect| effect.concurrency == concurrency).map(Effect::words).collect();
    words.join(", ")
}

/// Implied values of one parameter, in words.
pub(super) fn implied_words(implied: &[Implied]) -> String {
    let words: Vec<String> = implied.iter().map(|Implied { by, value, .. }| format!("{by} {value:.2}")).collect();
    words.join(", ")
}
