//! The KV cache's pages: which page holds which tokens of which request. No tensor lives here.
//!
//! A page holds [`PAGE_TOKENS`] tokens of one request, in every layer. Page 0 belongs to nobody: rows that only pad a batch write there.

use thiserror::Error;

/// Tokens per page.
pub const PAGE_TOKENS: usize = 16;

/// Why pages could not be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KvError {
    /// The pool is too small for what its requests want to keep. Nothing was changed.
    #[error(
        "the kv cache is full: {wanted_pages} more pages of {PAGE_TOKENS} tokens are wanted but only {free_pages} of {n_pages} are free"
    )]
    Exhausted {
        /// Pages that the call asked for.
        wanted_pages: usize,
        /// Pages that were free.
        free_pages: usize,
        /// Pages that the pool has.
        n_pages: usize,
    },
    /// The slot is beyond the number that the pool was made for.
    #[error("slot {slot} does not exist: the pool was made for {n_slots} requests")]
    UnknownSlot {
        /// The slot asked for.
        slot: u32,
        /// Slots that there are.
        n_slots: usize,
    },
    /// One request wants more tokens than a page table can list.
    #[error("slot {slot} would keep {tokens} tokens but a request may keep at most {tokens_max}")]
    TooLong {
        /// The slot asked for.
        slot: u32,
        /// Tokens wanted.
        tokens: usize,
        /// The limit.
        tokens_max: usize,
    },
    /// A truncation that would lengthen the request.
    #[error("slot {slot} keeps {kv_tokens} tokens and cannot be cut to {tokens}")]
    NotShorter {
        /// The slot asked for.
        slot: u32,
        /// Tokens that it keeps.
        kv_tokens: usize,
        /// Tokens asked for.
        tokens: usize,
    },
}

/// Pages of one model, and the page table of each request.
#[derive(Clone, Debug)]
pub struct PagePool {
    n_pages: usize,
    request_tokens_max: usize,
    /// Free pages; the last one is given out next, so that recently used memory is used again.
    free: Vec<u32>,
    requests: Vec<Request>,
}

#[derive(Clone, Debug, Default)]
struct Request {
    pages: Vec<u32>,
    kv_tokens: usize,
}

impl PagePool {
    /// A pool in which any set of at most `n_slots` requests fits that keeps at most `budget_tokens` tokens in all, each at most
    /// `request_tokens_max`. Pages that are partly empty are paid for by one extra page per slot.
    #[must_use]
    pub fn for_budget(budget_tokens: usize, n_slots: usize, request_tokens_max: usize) -> Self {
        Self::with_pages(budget_tokens.div_ceil(PAGE_TOKENS) + n_slots, n_slots, request_tokens_max)
    }

    /// A pool of exactly `n_pages` usable pages.
    #[must_use]
    pub fn with_pages(n_pages: usize, n_slots: usize, request_tokens_max: usize) -> Self {
        let last = u32::try_from(n_pages).expect("a pool of 4 billion pages fits no machine");
        let mut requests = vec![Request::default(); n_slots];
        for request in &mut requests {
            request.pages.reserve_exact(request_tokens_max.div_ceil(PAGE_TOKENS));
        }
        Self { n_pages, request_tokens_max, free: (1..=last).rev().collect(), requests }
    }

    /// Pages that storage must hold: the usable ones and page 0.
    #[must_use]
    pub fn n_pages_stored(&self) -> usize {
        self.n_pages + 1
    }

    /// Pages that nobody uses.
    #[must_use]
    pub fn n_free(&self) -> usize {
        self.free.len()
    }

    /// Requests that the pool was made for.
    #[must_use]
    pub fn n_slots(&self) -> usize {
        self.requests.len()
    }

    /// The longest that one request may become, in tokens.
    #[must_use]
    pub fn request_tokens_max(&self) -> usize {
        self.request_tokens_max
    }

    /// Tokens that `slot` keeps; 0 for a slot that is free.
    ///
    /// # Errors
    /// [`KvError::UnknownSlot`].
    pub fn kv_tokens(&self, slot: u32) -> Result<usize, KvError> {
        Ok(self.request(slot)?.kv_tokens)
    }

    /// The pages of `slot`, in the order of its tokens.
    ///
    /// # Errors
    /// [`KvError::UnknownSlot`].
    pub fn pages(&self, slot: u32) -> Result<&[u32], KvError> {
        Ok(&self.request(slot)?.pages)
    }

    /// Makes room for more tokens: each entry names a slot and how many tokens it gains. All entries are granted, or nothing changes.
    ///
    /// # Errors
    /// [`KvError::Exhausted`], [`KvError::TooLong`] or [`KvError::UnknownSlot`].
    pub fn grow(&mut self, growth: &[(u32, usize)]) -> Result<(), KvError> {
        for (idx, &(slot, new_tokens)) in growth.iter().enumerate() {
            if let Err(error) = self.grow_one(slot, new_tokens) {
                self.shrink(&growth[..idx]);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes back what [`PagePool::grow`] has just granted for the same entries.
    pub fn shrink(&mut self, growth: &[(u32, usize)]) {
        for &(slot, new_tokens) in growth.iter().rev() {
            let tokens = self.requests[slot as usize].kv_tokens - new_tokens;
            self.truncate(slot, tokens).expect("the slot has grown by at least this much");
        }
    }

    /// Keeps only the first `tokens` tokens of `slot` and frees the pages behind them.
    ///
    /// # Errors
    /// [`KvError::NotShorter`] or [`KvError::UnknownSlot`].
    pub fn truncate(&mut self, slot: u32, tokens: usize) -> Result<(), KvError> {
        let kv_tokens = self.request(slot)?.kv_tokens;
        if tokens > kv_tokens {
            return Err(KvError::NotShorter { slot, kv_tokens, tokens });
        }
        let request = &mut self.requests[slot as usize];
        request.kv_tokens = tokens;
        self.free.extend(request.pages.drain(tokens.div_ceil(PAGE_TOKENS)..).rev());
        Ok(())
    }

    /// Frees all of `slot`. Freeing a free slot does nothing.
    ///
    /// # Errors
    /// [`KvError::UnknownSlot`].
    pub fn free(&mut self, slot: u32) -> Result<(), KvError> {
        self.truncate(slot, 0)
    }

    fn request(&self, slot: u32) -> Result<&Request, KvError> {
        self.requests.get(slot as usize).ok_or(KvError::UnknownSlot { slot, n_slots: self.requests.len() })
    }

    fn grow_one(&mut self, slot: u32, new_tokens: usize) -> Result<(), KvError> {
        let request = self.request(slot)?;
        let tokens = request.kv_tokens + new_tokens;
        if tokens > self.request_tokens_max {
            return Err(KvError::TooLong { slot, tokens, tokens_max: self.request_tokens_max });
        }
        let wanted_pages = tokens.div_ceil(PAGE_TOKENS) - request.pages.len();
        if wanted_pages > self.free.len() {
            return Err(KvError::Exhausted { wanted_pages, free_pages: self.free.len(), n_pages: self.n_pages });
        }
        let request = &mut self.requests[slot as usize];
        request.pages.extend(self.free.drain(self.free.len() - wanted_pages..).rev());
        request.kv_tokens = tokens;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pages_are_taken_at_the_page_boundary() {
        let mut pool = PagePool::with_pages(3, 2, 100);
        pool.grow(&[(0, PAGE_TOKENS)]).unwrap();
        assert_eq!(pool.pages(0).unwrap(), [1]);
        pool.grow(&[(0, 1)]).unwrap();
        assert_eq!(pool.pages(0).unwrap(), [1, 2]);
        pool.grow(&[(0, PAGE_TOKENS - 1)]).unwrap();
        assert_eq!((pool.n_free(), pool.kv_tokens(0).unwrap()), (1, 2 * PAGE_TOKENS));
    }

    #[test]
    fn page_zero_is_never_given_away() {
        let mut pool = PagePool::with_pages(4, 1, 1000);
        pool.grow(&[(0, 4 * PAGE_TOKENS)]).unwrap();
        assert!(!pool.pages(0).unwrap().contains(&0));
        assert_eq!(pool.n_pages_stored(), 5);
    }

    #[test]
    fn exhaustion_changes_nothing() {
        let mut pool = PagePool::with_pages(3, 3, 1000);
        pool.grow(&[(0, 1)]).unwrap();
        let before = pool.clone();
        let error = pool.grow(&[(1, 16), (0, 16), (2, 17)]).unwrap_err();
        assert_eq!(error, KvError::Exhausted { wanted_pages: 2, free_pages: 0, n_pages: 3 });
        assert_eq!((pool.kv_tokens(0).unwrap(), pool.kv_tokens(1).unwrap(), &pool.free), (1, 0, &before.free));
        assert!(error.to_string().contains("2 more pages"));
    }

    #[test]
    fn a_request_has_a_longest_length() {
        let mut pool = PagePool::with_pages(10, 1, 20);
        assert_eq!(pool.grow(&[(0, 21)]), Err(KvError::TooLong { slot: 0, tokens: 21, tokens_max: 20 }));
        pool.grow(&[(0, 20)]).unwrap();
    }

    #[test]
    fn truncation_frees_whole_pages_only() {
        let mut pool = PagePool::with_pages(4, 1, 100);
        pool.grow(&[(0, 33)]).unwrap();
        pool.truncate(0, 17).unwrap();
        assert_eq!(pool.pages(0).unwrap(), [1, 2]);
        pool.truncate(0, 16).unwrap();
        assert_eq!(pool.pages(0).unwrap(), [1]);
        assert_eq!(pool.truncate(0, 17), Err(KvError::NotShorter { slot: 0, kv_tokens: 16, tokens: 17 }));
        pool.free(0).unwrap();
        pool.free(0).unwrap();
        assert_eq!(pool.n_free(), 4);
        assert!(matches!(pool.free(1), Err(KvError::UnknownSlot { slot: 1, n_slots: 1 })));
    }

    proptest! {
        /// Whatever happens, every page is free or in exactly one table, and each table is as long as its tokens need.
        #[test]
        fn pages_are_neither_lost_nor_shared(steps in prop::collection::vec((0_u32..4, 0_usize..50, any::<bool>()), 1..60)) {
            let mut pool = PagePool::with_pages(9, 4, 90);
            for (slot, tokens, grow) in steps {
                if grow { let _ = pool.grow(&[(slot, tokens), ((slot + 1) % 4, 1)]); } else { let _ = pool.truncate(slot, tokens); }
                let mut seen: Vec<u32> = pool.free.clone();
                for slot in 0..4 {
                    seen.extend(pool.pages(slot).unwrap());
                    prop_assert_eq!(pool.pages(slot).unwrap().len(), pool.kv_tokens(slot).unwrap().div_ceil(PAGE_TOKENS));
                }
                seen.sort_unstable();
                prop_assert_eq!(seen, (1..=9).collect::<Vec<u32>>());
            }
        }

        /// The promise of `for_budget`: requests within the token budget always fit.
        #[test]
        fn a_budget_in_tokens_is_enough(lengths in prop::collection::vec(1_usize..70, 1..8)) {
            let mut pool = PagePool::for_budget(lengths.iter().sum(), lengths.len(), 100);
            for (slot, &tokens) in (0..).zip(&lengths) {
                pool.grow(&[(slot, tokens)]).unwrap();
            }
        }
    }
}
