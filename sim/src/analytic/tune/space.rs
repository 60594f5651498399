//! Feasible vectors of thresholds.

/// All vectors with one threshold of at least 1 a model whose sum of (B - 1) is below the concurrency.
#[derive(Clone, Debug)]
pub(super) struct Space {
    n_models: usize,
    concurrency: u32,
}

/// A coarse set of more vectors is not enumerated; the search then goes model by model.
const COARSE_MAX: usize = 1_000;

impl Space {
    pub(super) fn new(n_models: usize, concurrency: u32) -> Self {
        Self { n_models, concurrency }
    }

    pub(super) fn eager(&self) -> Vec<u32> {
        vec![1; self.n_models]
    }

    /// Number of vectors: those of n numbers B - 1 >= 0 with a sum of at most C - 1, a binomial coefficient.
    pub(super) fn count(&self) -> f64 {
        let (n, c) = (self.n_models as f64, f64::from(self.concurrency));
        (1..=self.n_models).map(|k| (c - 1.0 + n - (k as f64 - 1.0)) / k as f64).product::<f64>().round()
    }

    pub(super) fn contains(&self, thresholds: &[u32]) -> bool {
        let held_back: u64 = thresholds.iter().map(|&threshold| u64::from(threshold) - 1).sum();
        held_back < u64::from(self.concurrency)
    }

    /// Every vector, in lexicographic order.
    pub(super) fn all(&self) -> Vec<Vec<u32>> {
        let every: Vec<u32> = (1..=self.concurrency).collect();
        self.product(&every, usize::MAX).expect("there is no limit")
    }

    /// The vectors of [`Self::levels`], or where those are too many, the ones that differ from 1 at one model.
    pub(super) fn coarse(&self) -> Vec<Vec<u32>> {
        let levels = self.levels();
        self.product(&levels, COARSE_MAX).unwrap_or_else(|| {
            let mut vectors = vec![self.eager()];
            vectors.extend(self.lines(&self.eager(), &levels).into_iter().filter(|vector| *vector != self.eager()));
            vectors
        })
    }

    /// Every level at each model in turn, and every threshold between the levels around that of `centre`, the other models as there.
    pub(super) fn around(&self, centre: &[u32]) -> Vec<Vec<u32>> {
        let levels = self.levels();
        let mut vectors = Vec::new();
        for model in 0..self.n_models {
            let own = centre[model];
            let low = levels.iter().rev().find(|&&level| level < own).copied().unwrap_or(1);
            let high = levels.iter().find(|&&level| level > own).copied().unwrap_or(self.concurrency);
            let mut values: Vec<u32> = levels.iter().copied().chain(low..=high).collect();
            values.sort_unstable();
            values.dedup();
            vectors.extend(self.line(centre, model, &values));
        }
        vectors
    }

    /// The vectors that have `values` at `model` and are `centre` elsewhere.
    pub(super) fn line(&self, centre: &[u32], model: usize, values: &[u32]) -> Vec<Vec<u32>> {
        let vectors = values.iter().map(|&value| {
            let mut vector = centre.to_vec();
            vector[model] = value;
            vector
        });
        vectors.filter(|vector| self.contains(vector)).collect()
    }

    fn lines(&self, centre: &[u32], values: &[u32]) -> Vec<Vec<u32>> {
        (0..self.n_models).flat_map(|model| self.line(centre, model, values)).collect()
    }

    /// Coarse thresholds: 1, 2, 3, 4, 6, 8, 12, ..., each at most one and a half times the one before it but for the first, and the concurrency.
    fn levels(&self) -> Vec<u32> {
        let doubled = (1..31).flat_map(|power| [1_u32 << power, (1_u32 << power) + (1_u32 << (power - 1))]);
        let mut levels: Vec<u32> =
            std::iter::once(1).chain(doubled).take_while(|&level| level < self.concurrency).collect();
        levels.push(self.concurrency);
        levels.dedup();
        levels
    }

    /// All feasible vectors of `values`, which rise; `None` if they are more than `most`.
    fn product(&self, values: &[u32], most: usize) -> Option<Vec<Vec<u32>>> {
        let mut vectors: Vec<Vec<u32>> = vec![Vec::new()];
        for _ in 0..self.n_models {
            let mut longer = Vec::new();
            for vector in &vectors {
                for &value in values {
                    let mut next = vector.clone();
                    next.push(value);
                    if !self.contains(&next) {
                        break;
                    }
                    longer.push(next);
                    if longer.len() > most {
                        return None;
                    }
                }
            }
            vectors = longer;
        }
        Some(vectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_feasible_vectors_are_counted() {
        for (n_models, concurrency) in [(1, 5), (2, 1), (2, 4), (2, 32), (3, 6), (4, 5)] {
            let space = Space::new(n_models, concurrency);
            let all = space.all();
            assert_eq!(space.count(), all.len() as f64, "{n_models} models, {concurrency} requests");
            assert!(all.iter().all(|vector| space.contains(vector)) && all.is_sorted());
        }
        assert_eq!(Space::new(2, 3).all(), [[1, 1], [1, 2], [1, 3], [2, 1], [2, 2], [3, 1]]);
    }

    #[test]
    fn levels_lie_close_to_every_threshold() {
        let levels = Space::new(2, 50).levels();
        assert_eq!(levels, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 50]);
        for threshold in 1..=50 {
            let nearest = levels.iter().map(|level| level.abs_diff(threshold)).min().unwrap();
            assert!(3 * nearest < threshold.max(2), "{threshold}");
        }
        assert_eq!(Space::new(1, 1).levels(), [1]);
    }

    #[test]
    fn the_coarse_set_of_many_models_is_a_star() {
        let space = Space::new(12, 100);
        let coarse = space.coarse();
        assert!(coarse.len() < 12 * 16 && coarse.contains(&space.eager()));
        assert!(coarse.iter().all(|vector| vector.iter().filter(|&&threshold| threshold > 1).count() <= 1));
        assert_eq!(Space::new(2, 3).coarse(), Space::new(2, 3).all());
    }

    #[test]
    fn everything_between_the_neighbouring_levels_is_around() {
        let space = Space::new(2, 20);
        let around = space.around(&[1, 12]);
        for threshold in 8..=16 {
            assert!(around.contains(&vec![1, threshold]), "{threshold}");
        }
        assert!(around.contains(&vec![8, 12]) && !around.contains(&vec![12, 12]));
    }
}
