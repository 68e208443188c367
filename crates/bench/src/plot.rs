//! Plots as SVG and PNG, without fontconfig: one free font is embedded (assets/, its licence beside it).

pub mod curves;
pub mod heat;
pub mod latency;
mod painter;
pub mod spread;
pub(crate) mod steps;

use crate::error::{Error, doing};
use painter::{Canvas, Failure};
use plotters::prelude::{BitMapBackend, IntoDrawingArea, SVGBackend};
use plotters::style::{FontStyle, register_font};
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use tocsin_topology::Topology;
use tocsin_world::say;

static FONT: &[u8] = include_bytes!("../assets/OpenSans-Regular.ttf");
/// The name an SVG carries: any viewer has some font of this kind, and lengths are computed with ours.
const FAMILY: &str = "sans-serif";
/// Bitmaps have twice the pixels, so that small text is sharp.
const BITMAP_SCALE: u32 = 2;

/// Something that can be painted on a canvas of a size it chooses.
trait Picture {
    /// Width and height in units (SVG: pixels).
    fn size(&self) -> (u32, u32);
    /// Paints.
    fn paint(&self, canvas: &dyn Canvas) -> Result<(), Failure>;
}

/// Makes the directory of `--plot` if need be, and sees that files can be made there: before hours are measured for their sake.
pub(crate) fn prepare(dir: Option<&Path>) -> Result<(), Error> {
    let Some(dir) = dir else { return Ok(()) };
    let wrong = |what: &str, why: io::Error| {
        let dir = dir.display();
        Error::Usage(format!("--plot {dir}: {what} ({why}): name a directory that you may write to"))
    };
    std::fs::create_dir_all(dir).map_err(|why| wrong("no directory, and none can be made", why))?;
    try_to_make_a_file(dir).map_err(|why| wrong("no file can be made there", why))
}

/// Makes a file in a directory and removes it: what counts is what the kernel lets one do, whatever the modes say, as to root, and where all is
/// read-only.
pub(crate) fn try_to_make_a_file(dir: &Path) -> io::Result<()> {
    let probe = dir.join(format!(".tocsin-{}", std::process::id()));
    drop(OpenOptions::new().write(true).create_new(true).open(&probe)?);
    std::fs::remove_file(&probe)
}

/// Writes `picture` as `dir/file.svg` and `dir/file.png`; gives the paths.
fn write(dir: &Path, file: &str, picture: &dyn Picture) -> Result<Vec<PathBuf>, Error> {
    std::fs::create_dir_all(dir).map_err(doing(format!("making the directory {}", dir.display())))?;
    register_font(FAMILY, FontStyle::Normal, FONT)
        .map_err(|_| Error::Failed("the font does not load".into()))?;
    let (width, height) = picture.size();
    let (svg, png) = (dir.join(format!("{file}.svg")), dir.join(format!("{file}.png")));
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |Failure(why)| Error::Failed(format!("writing {path}: {why}"))
    };
    {
        let area = SVGBackend::new(&svg, (width, height)).into_drawing_area();
        let painter = painter::Painter { area, scale: 1 };
        picture.paint(&painter).and_then(|()| painter.finish()).map_err(failed(&svg))?;
    }
    {
        let size = (width * BITMAP_SCALE, height * BITMAP_SCALE);
        let area = BitMapBackend::new(&png, size).into_drawing_area();
        let painter = painter::Painter { area, scale: BITMAP_SCALE as i32 };
        picture.paint(&painter).and_then(|()| painter.finish()).map_err(failed(&png))?;
    }
    Ok(vec![svg, png])
}

/// Says on standard error what was written.
pub(crate) fn announce(paths: &[PathBuf]) {
    paths.iter().for_each(|path| say(format_args!("wrote {}", path.display())));
}

/// The machine in one line, for captions.
pub fn machine() -> String {
    let topology = Topology::machine().map_or_else(|_| "unknown topology".into(), |t| t.summary());
    format!("{}, {topology}, Linux {}, tocsin {}", cpu_model(), kernel(), tocsin_world::VERSION)
}

/// The processor's name.
pub(crate) fn cpu_model() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name") || line.starts_with("Model"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim().to_owned());
    name.unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH))
}

/// The kernel's release.
pub(crate) fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "?".into(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests;
