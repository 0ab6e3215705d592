//! The library behind JavaScript's `Intl`, with its data: a directory that contexts see read-only.
//!
//! It is no part of the base image: what of it code uses is read into a context when it is used first.

use super::catalogue::{Client, Package};
use super::error::at;
use super::{Error, fetch};
use std::fs;
use std::path::Path;

/// Where contexts see it.
pub(crate) const GUEST: &str = "/usr/local/lib/intl";

/// Languages that have data, and the regions where their usage is another one.
const LOCALES: &str = "ar ar-EG bg bn ca cs da de de-AT de-CH el en en-AU en-CA en-GB en-IE en-IN en-NZ \
    en-ZA es es-419 es-AR es-MX es-US et fa fi fr fr-CA fr-CH he hi hr hu id it ja ko lt lv ms nb \
    nl nl-BE no pl pt pt-PT ro ru sk sl sr sv sw ta te th tr uk ur vi zh zh-Hant zh-Hant-HK";

/// What of a package lies beside its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    None,
    /// A file for each locale.
    Locales,
    /// A file for each language; those of regions are the same, but for Portugal's.
    Languages,
    /// As `Locales`, and the time zones.
    Zones,
}

macro_rules! part {
    ($data:ident, $name:literal, $version:literal, $bytes:literal, $sha256:literal) => {
        (
            Package {
                client: Client::Npm,
                name: concat!("@formatjs/", $name),
                version: $version,
                sha256: &[("", $sha256)],
                bytes: $bytes,
            },
            Data::$data,
        )
    };
}

/// The packages, each with the versions of the others that it asks for.
const PARTS: &[(Package, Data)] = &[
    part!(
        None,
        "bigdecimal",
        "0.2.7",
        12_000,
        "1997b14becd8f6608761cbda7edcc8265cbf34e6a28a946ac8623dce91fa7b7a"
    ),
    part!(
        None,
        "fast-memoize",
        "3.1.7",
        3_426,
        "c3c1959c517f5ff31774fc90d47a3d8bec6e5eb59e1388bfcb66ef21f6821a02"
    ),
    part!(
        None,
        "intl-localematcher",
        "0.9.0",
        41_469,
        "aaa33590bf76b92f00d94b7e78b09452bd30b56b1a296c71e1de043629e69248"
    ),
    part!(
        None,
        "intl-getcanonicallocales",
        "3.2.12",
        507_215,
        "2ff2a69d17832d1330c11140d3ced8fd57443c282ad3780de7a493807beb82eb"
    ),
    part!(
        None,
        "intl-supportedvaluesof",
        "2.3.11",
        66_861,
        "c1ee5dfe0ca7e8b7567c0aa55501775590fa146231532d438cacdc0b01ce1107"
    ),
    part!(
        None,
        "intl-locale",
        "5.3.12",
        226_491,
        "76d762fae1241bfc2298194ea3c4e7e16cbb188e1ea6233b2a91513e57addf1e"
    ),
    part!(
        Languages,
        "intl-pluralrules",
        "6.3.16",
        173_173,
        "e62a42279e48ce1d50765dfced7161a27ff5f023d31d346faa2a7e52b3da0c6f"
    ),
    part!(
        Locales,
        "intl-numberformat",
        "9.4.3",
        12_451_614,
        "6a66d9fd6f0a59769b3f54110837c7de08e3f860ecd99f098caf4c426e3da6b7"
    ),
    part!(
        Zones,
        "intl-datetimeformat",
        "7.8.1",
        13_143_538,
        "273e1d28770c315887ab08d980f6a746655f0ebe3bbc1ff89d69e159554bed6e"
    ),
    part!(
        Locales,
        "intl-listformat",
        "8.3.15",
        155_274,
        "213a43f6cbe4a4974dfa516fa6c240ffe03735c1282fd8d98d5124b6c6f7cc68"
    ),
    part!(
        Locales,
        "intl-relativetimeformat",
        "12.3.15",
        435_000,
        "d42c0a2cfbe46060305b72d482a43fe32222a3ed620adbd49ff578f17377a4c0"
    ),
    part!(
        Locales,
        "intl-displaynames",
        "7.3.15",
        13_648_960,
        "75c76e05dc4ee685f7e28f500dfee8051a8b69fbb62e0079050a75b5810095bc"
    ),
];

/// How many bytes all packages have, about.
pub(crate) fn bytes() -> u64 {
    PARTS.iter().map(|(package, _)| package.bytes).sum()
}

/// What the directory is made from, hex: changes with whatever changes what is in it.
pub(crate) fn recipe() -> String {
    let mut hash = blake3::Hasher::new();
    for (package, data) in PARTS {
        for (_, sha256) in package.sha256 {
            hash.update(sha256.as_bytes());
        }
        for member in members(*data) {
            hash.update(member.as_bytes()).update(b"\n");
        }
    }
    hash.finalize().to_hex().to_string()
}

/// What of a package is kept, as its archive names it; its licence is.
fn members(data: Data) -> Vec<String> {
    let mut members = vec!["package/index.js".to_owned(), "package/LICENSE.md".to_owned()];
    if data == Data::Zones {
        members.push("package/add-all-tz.js".to_owned());
    }
    let kept = |locale: &&str| match data {
        Data::None => false,
        Data::Languages => !locale.contains('-') || *locale == "pt-PT",
        Data::Locales | Data::Zones => true,
    };
    let locales = LOCALES.split_whitespace().filter(kept);
    members.extend(locales.map(|locale| format!("package/locale-data/{locale}.js")));
    members
}

/// Fetches the packages into `work`, and puts what is kept of them into `to`: a directory for each,
/// by the last part of its name, and the list of locales.
pub(crate) fn take(engine: &str, work: &Path, to: &Path) -> Result<(), Error> {
    for (package, data) in PARTS {
        let archive = fetch::package(engine, package, work)?;
        let fresh = tempfile::tempdir_in(work).map_err(at(work))?;
        let members = members(*data);
        let members: Vec<_> = members.iter().map(String::as_str).collect();
        fetch::unpack(engine, &archive, &members, fresh.path())?;
        let place = to.join(package.name.rsplit('/').next().unwrap_or(package.name));
        fs::rename(fresh.path().join("package"), &place).map_err(at(place))?;
    }
    let list = to.join("locales");
    let text = LOCALES.split_whitespace().collect::<Vec<_>>().join(" ");
    fs::write(&list, text).map_err(at(list))
}
