// The library behind `Intl`, in a realm of its own: code of a context cannot change what it stands on.
// A part of it, and a locale's data, are read when they are needed first.
(function (native) {
  "use strict";
  const { defineProperty } = Object;
  const PACKAGES = {
    NumberFormat: "intl-numberformat",
    DateTimeFormat: "intl-datetimeformat",
    PluralRules: "intl-pluralrules",
    RelativeTimeFormat: "intl-relativetimeformat",
    ListFormat: "intl-listformat",
    DisplayNames: "intl-displaynames",
    Locale: "intl-locale",
  };
  const FILES = native.libraryFile("locales").split(" ");
  // What has the data of its language.
  const USUAL =
    "bg-BG bn-BD ca-ES cs-CZ da-DK de-DE el-GR en-US es-ES et-EE fa-IR fi-FI fr-FR he-IL hi-IN hr-HR hu-HU id-ID " +
    "it-CH it-IT ja-JP ko-KR lt-LT lv-LV ms-MY nb-NO nl-NL no-NO pl-PL pt-BR ro-RO ru-RU sk-SK sl-SI sr-RS sv-SE sw-KE " +
    "ta-IN te-IN th-TH tr-TR uk-UA ur-PK vi-VN zh-CN zh-Hans zh-Hans-CN zh-Hant-TW zh-SG";
  // What has the data of another name.
  const OTHERS = { "zh-TW": "zh-Hant", "zh-HK": "zh-Hant-HK" };
  const NAMES = [...FILES, ...USUAL.split(" "), ...Object.keys(OTHERS)];
  const DEFAULT = "en-US";

  const lazy = (object, key, make) => {
    const set = (value) => defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
    defineProperty(object, key, {
      enumerable: true,
      configurable: true,
      get() {
        const value = make();
        set(value);
        return value;
      },
      set,
    });
  };

  // The text of a locale's data, and the name that it goes by: the nearest that there is.
  const nearest = (name, tag) => {
    for (let at = OTHERS[tag] ?? tag; at; at = at.slice(0, Math.max(at.lastIndexOf("-"), 0))) {
      const text = FILES.includes(at) ? native.libraryFile(`${PACKAGES[name]}/locale-data/${at}.js`) : null;
      if (text !== null) return { at, text };
    }
    throw new RangeError(`there is no data of ${tag}`);
  };
  // Makes what it was given aside, so that nothing of the list of what can be had is changed.
  const data = (name, kind, tag) => {
    const { at, text } = nearest(name, tag);
    const { localeData, availableLocales } = kind;
    if (at !== tag) return localeData[at];
    kind.localeData = {};
    kind.availableLocales = new Set();
    try {
      native.script(text, `sandkeep:${name}/${tag}`);
      return kind.localeData[tag];
    } finally {
      kind.localeData = localeData;
      kind.availableLocales = availableLocales;
    }
  };

  // Zones are unpacked one by one.
  const zones = (kind) => {
    const add = kind.__addTZData;
    let all = false;
    kind.tzData = { UTC: [[-Infinity, "UTC", 0, false]] };
    kind.__addTZData = ({ abbrvs, offsets, zones: packed }) => {
      const { tzData } = kind;
      for (const text of packed) {
        const zone = text.slice(0, text.indexOf("|"));
        lazy(tzData, zone, () => {
          add({ abbrvs, offsets, zones: [text] });
          const made = kind.tzData[zone];
          kind.tzData = tzData;
          return made;
        });
      }
    };
    return () => {
      if (all) return;
      native.script(native.libraryFile("intl-datetimeformat/add-all-tz.js"), "sandkeep:zones");
      all = true;
    };
  };

  const Intl = {};
  let withZones = () => Intl.DateTimeFormat && withZones();
  const load = (name) => {
    const exported = native.libraryModule(PACKAGES[name]);
    const kind = exported[name] ?? exported.default;
    if (name === "Locale") return kind;
    kind.__defaultLocale = DEFAULT;
    for (const tag of NAMES) {
      lazy(kind.localeData, tag, () => data(name, kind, tag));
      kind.availableLocales.add(tag);
    }
    if (name === "DateTimeFormat") withZones = zones(kind);
    return kind;
  };
  const { getCanonicalLocales } = native.libraryModule("intl-getcanonicallocales");
  for (const name of Object.keys(PACKAGES)) lazy(Intl, name, () => load(name));
  Intl.getCanonicalLocales = getCanonicalLocales;
  defineProperty(globalThis, "Intl", { value: Intl, writable: true, configurable: true });

  const ERRORS = { RangeError, TypeError, SyntaxError, ReferenceError, InternalError, EvalError, Error };
  return {
    __proto__: null,
    list: () => [],
    make(name, first, options) {
      if (name === "DateTimeFormat" && options.timeZone !== undefined && String(options.timeZone).toUpperCase() !== "UTC") withZones();
      return new Intl[name](first, options);
    },
    call: (object, method, first, second) => object[method](first, second),
    get: (object, key) => object[key],
    canonical: getCanonicalLocales,
    supported: (name, tags, options) => Intl[name].supportedLocalesOf(tags, options),
    values(key) {
      if (key === "timeZone") {
        withZones();
        return Object.keys(Intl.DateTimeFormat.tzData).sort();
      }
      if (key === "collation") return [];
      return native.libraryModule("intl-supportedvaluesof").supportedValuesOf(key);
    },
    // Which of the errors of this realm something is.
    errorName(thrown) {
      if (native.classOf(thrown) !== "Error") return undefined;
      for (const name of Object.keys(ERRORS)) if (thrown instanceof ERRORS[name]) return name;
    },
  };
})
