//! Turns a figure into PNG.

use resvg::{tiny_skia, usvg};

use super::FigureError;
use super::font;

/// Pixels of the PNG for each pixel of the SVG: sharp on dense screens and in print.
const PIXEL_RATIO: f32 = 2.0;

/// The SVG as PNG, twice as large in each direction.
///
/// # Errors
/// When the text is not an SVG, or an SVG without size.
pub(crate) fn rasterise(svg: &str) -> Result<Vec<u8>, FigureError> {
    let tree = usvg::Tree::from_str(svg, &font::options()).map_err(|error| FigureError::Raster(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(PIXEL_RATIO);
    let mut pixels = size
        .and_then(|size| tiny_skia::Pixmap::new(size.width(), size.height()))
        .ok_or_else(|| FigureError::Raster(format!("{:?} is no size for a picture", tree.size())))?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(PIXEL_RATIO, PIXEL_RATIO), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| FigureError::Raster(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_twice_as_large() {
        let png = rasterise(r#"<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20"/>"#).unwrap();
        // PNG specification, section 11.2.2: width and height follow the signature and the name of the first chunk.
        assert_eq!(png[16..24], [0, 0, 0, 60, 0, 0, 0, 40]);
    }

    #[test]
    fn what_is_no_picture_is_an_error() {
        for text in ["", "<html/>", "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"0\" height=\"1\"/>"] {
            let error = rasterise(text).unwrap_err().to_string();
            assert!(error.starts_with("cannot turn the figure into PNG: "), "{error}");
        }
    }
}
