//! Where the requests of completing batches go: the joint distribution of new arrivals at every model.

use std::collections::BTreeMap;

/// Distributions of arrivals, each computed once. Requests of one model draw their destinations from its row of `routes`, independently.
#[derive(Debug)]
pub(super) struct Outcomes {
    routes: Vec<Vec<f64>>,
    idx_of: BTreeMap<Vec<u32>, u32>,
    tables: Vec<Table>,
}

/// The possible arrivals after one set of completions, with their probabilities.
#[derive(Debug)]
pub(super) struct Table {
    /// Arrivals at each model, one row of `n_models` numbers per outcome.
    arrivals: Vec<u32>,
    /// Probability of each outcome. They add to 1.
    pub(super) probabilities: Vec<f64>,
}

impl Outcomes {
    pub(super) fn new(routes: &[Vec<f64>]) -> Self {
        Self { routes: routes.to_vec(), idx_of: BTreeMap::new(), tables: Vec::new() }
    }

    /// Index of the table for completing batches of `completing[i]` requests at model i (0: no completion there).
    pub(super) fn idx(&mut self, completing: &[u32]) -> u32 {
        if let Some(&idx) = self.idx_of.get(completing) {
            return idx;
        }
        let table = self.compute(completing);
        let idx = u32::try_from(self.tables.len()).expect("there are fewer tables than states");
        self.tables.push(table);
        self.idx_of.insert(completing.to_vec(), idx);
        idx
    }

    pub(super) fn table(&self, idx: u32) -> &Table {
        &self.tables[idx as usize]
    }

    /// Adds one request at a time: sums of positive terms only, so every probability is good to a few units in the last place.
    fn compute(&mut self, completing: &[u32]) -> Table {
        let Some(model) = completing.iter().position(|&requests| requests > 0) else {
            return Table { arrivals: vec![0; completing.len()], probabilities: vec![1.0] };
        };
        let mut fewer = completing.to_vec();
        fewer[model] -= 1;
        let before_idx = self.idx(&fewer);
        let before = self.table(before_idx);
        let mut probability_of: BTreeMap<Vec<u32>, f64> = BTreeMap::new();
        for (arrivals, probability) in before.iter(completing.len()) {
            for (destination, &route) in self.routes[model].iter().enumerate().filter(|&(_, &route)| route > 0.0) {
                let mut next = arrivals.to_vec();
                next[destination] += 1;
                *probability_of.entry(next).or_default() += probability * route;
            }
        }
        let mut table = Table { arrivals: Vec::new(), probabilities: Vec::new() };
        for (arrivals, probability) in probability_of {
            table.arrivals.extend(arrivals);
            table.probabilities.push(probability);
        }
        table
    }
}

impl Table {
    pub(super) fn iter(&self, n_models: usize) -> impl Iterator<Item = (&[u32], f64)> {
        self.arrivals.chunks_exact(n_models).zip(self.probabilities.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_destinations_give_the_binomial_law() {
        let mut outcomes = Outcomes::new(&[vec![0.7, 0.3], vec![1.0, 0.0]]);
        let idx = outcomes.idx(&[2, 1]);
        let table: Vec<(Vec<u32>, f64)> = outcomes.table(idx).iter(2).map(|(a, p)| (a.to_vec(), p)).collect();
        let expected = [([1, 2], 0.09), ([2, 1], 0.42), ([3, 0], 0.49)];
        assert_eq!(table.len(), 3);
        for ((arrivals, probability), (expected_arrivals, expected_probability)) in table.iter().zip(expected) {
            assert_eq!(arrivals[..], expected_arrivals);
            assert!((probability - expected_probability).abs() < 1e-15);
        }
    }

    #[test]
    fn three_destinations_give_the_multinomial_law() {
        let mut outcomes = Outcomes::new(&[vec![0.5, 0.3, 0.2], vec![0.0; 3], vec![0.0; 3]]);
        let idx = outcomes.idx(&[4, 0, 0]);
        let table = outcomes.table(idx);
        assert!((table.probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-15);
        let (_, probability) = table.iter(3).find(|(arrivals, _)| arrivals == &[2, 1, 1]).unwrap();
        assert!((probability - 12.0 * 0.25 * 0.3 * 0.2).abs() < 1e-15);
    }
}
