//! Which states recur.

use super::ChainError;
use super::space::Space;

/// The states of the only closed class: those that the system visits again and again, whatever happens.
///
/// # Errors
/// If there are several such classes: then chance decides in which of them the system ends.
pub(super) fn closed_class(space: &Space) -> Result<Vec<u32>, ChainError> {
    let components = strong_components(space);
    let mut closed = vec![true; components.n];
    for state in 0..space.n_states() as u32 {
        let own = components.of[state as usize];
        if space.targets(state).iter().any(|&target| components.of[target as usize] != own) {
            closed[own as usize] = false;
        }
    }
    let n_classes = closed.iter().filter(|&&is_closed| is_closed).count();
    if n_classes != 1 {
        return Err(ChainError::SeveralRegimes { n_classes });
    }
    Ok((0..space.n_states() as u32).filter(|&state| closed[components.of[state as usize] as usize]).collect())
}

struct Components {
    /// Component of each state.
    of: Vec<u32>,
    n: usize,
}

/// Tarjan's algorithm, with an explicit stack because paths are as long as the chain.
fn strong_components(space: &Space) -> Components {
    const UNSEEN: u32 = u32::MAX;
    let n_states = space.n_states();
    let mut of = vec![UNSEEN; n_states];
    let mut n_components = 0;
    let mut seen_at = vec![UNSEEN; n_states];
    let mut lowest = vec![0; n_states];
    let mut clock = 0;
    let mut open = Vec::new();
    // State 0 is the start; everything else can be reached from it.
    let mut path: Vec<(u32, usize)> = vec![(0, 0)];
    while let Some(&mut (state, ref mut next)) = path.last_mut() {
        let own = state as usize;
        if *next == 0 {
            seen_at[own] = clock;
            lowest[own] = clock;
            clock += 1;
            open.push(state);
        }
        let targets = space.targets(state);
        let mut descend = None;
        while *next < targets.len() {
            let target = targets[*next];
            *next += 1;
            if seen_at[target as usize] == UNSEEN {
                descend = Some(target);
                break;
            }
            if of[target as usize] == UNSEEN {
                lowest[own] = lowest[own].min(seen_at[target as usize]);
            }
        }
        if let Some(target) = descend {
            path.push((target, 0));
            continue;
        }
        path.pop();
        if lowest[own] == seen_at[own] {
            while let Some(member) = open.pop() {
                of[member as usize] = n_components as u32;
                if member == state {
                    break;
                }
            }
            n_components += 1;
        }
        if let Some(&(parent, _)) = path.last() {
            lowest[parent as usize] = lowest[parent as usize].min(lowest[own]);
        }
    }
    Components { of, n: n_components }
}
