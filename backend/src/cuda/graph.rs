//! CUDA graphs, one per shape, captured when a shape comes for the second time.

use std::collections::BTreeMap;

use candle_core::cuda_backend::cudarc::driver::{CudaGraph, sys};
use candle_core::{Error, Result};

use super::buffers::Shape;
use super::forward::Forward;

#[derive(Default)]
pub(super) struct Graphs {
    known: BTreeMap<Shape, Option<Graph>>,
}

struct Graph(CudaGraph);

// SAFETY: a graph must not be used by two threads at a time; it has one owner, so it is not.
unsafe impl Send for Graph {}

impl Graphs {
    /// Runs a forward of this shape: kernel by kernel the first time, from then on as a graph.
    pub(super) fn run(&mut self, forward: &Forward, shape: Shape) -> Result<()> {
        match self.known.get_mut(&shape) {
            None => {
                forward.enqueue(shape)?;
                self.known.insert(shape, None);
                Ok(())
            }
            Some(graph) => {
                if graph.is_none() {
                    *graph = Some(Graph(capture(forward, shape)?));
                }
                let graph = graph.as_ref().expect("it was captured just now");
                graph.0.launch().map_err(Error::wrap)
            }
        }
    }
}

fn capture(forward: &Forward, shape: Shape) -> Result<CudaGraph> {
    let stream = forward.stream();
    // Only this thread's calls count: the other model's thread may do what it likes meanwhile.
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).map_err(Error::wrap)?;
    let enqueued = forward.enqueue(shape);
    // The capture must be ended even if it failed, or the stream is lost.
    let graph = stream.end_capture(sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    enqueued?;
    let graph = graph.map_err(Error::wrap)?.ok_or_else(|| Error::msg("the capture of a CUDA graph came out empty"))?;
    graph.upload().map_err(Error::wrap)?;
    Ok(graph)
}
