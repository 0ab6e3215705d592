// `Intl` as code sees it. What its classes tell is told by the library, in another realm; what goes there is
// read here, and what comes back, lists, objects and errors, is made anew of this realm's.
(function (native, both) {
  "use strict";
  const { library, intrinsics } = both;
  const { defineProperty, ownKeys, construct, Object, Number, String, isArray, now, errors } = intrinsics;
  const hide = (object, key, value) => defineProperty(object, key, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  const put = (object, key, value) => defineProperty(object, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  const fix = (object, key, value) => defineProperty(object, key, { __proto__: null, value, writable: false, enumerable: false, configurable: true });

  // What an object of a class stands for in the library; no code can look at it or make one.
  class Stamp extends function (object) {
    return object;
  } {
    #kind;
    #inner;
    #bound;
    constructor(object, kind, inner) {
      super(object);
      this.#kind = kind;
      this.#inner = inner;
    }
    static inner(object, kind) {
      return isObject(object) && #kind in object && object.#kind === kind ? object.#inner : undefined;
    }
    static bound(object, make) {
      return (object.#bound ??= make());
    }
  }
  const isObject = (value) => value !== null && (typeof value === "object" || typeof value === "function");

  const lift = (thrown) => {
    const name = library.errorName(thrown);
    return name === undefined ? thrown : new errors[name](library.get(thrown, "message"));
  };
  const ask = (act, a, b, c, d) => {
    try {
      return act(a, b, c, d);
    } catch (thrown) {
      throw lift(thrown);
    }
  };
  // Of values that the library made.
  const own = (value) => {
    if (!isObject(value)) return value;
    const list = isArray(value);
    const made = list ? [] : {};
    if (list) for (let i = 0; i < value.length; i++) put(made, i, own(value[i]));
    else {
      const keys = ownKeys(value);
      for (let i = 0; i < keys.length; i++) put(made, keys[i], own(value[keys[i]]));
    }
    return made;
  };

  const tagOf = (value) => {
    const locale = Stamp.inner(value, "Locale");
    if (locale !== undefined) return ask(library.call, locale, "toString");
    if (typeof value !== "string" && !isObject(value)) throw new errors.TypeError("A locale must be a string or an object");
    return String(value);
  };
  const tags = (locales) => {
    const list = library.list();
    if (locales === undefined) return list;
    if (typeof locales === "string" || Stamp.inner(locales, "Locale") !== undefined) {
      list[0] = tagOf(locales);
      return list;
    }
    if (locales === null) throw new errors.TypeError("Cannot convert null to an object");
    const from = Object(locales);
    const length = Number(from.length);
    for (let i = 0, n = 0; i < length; i++) if (i in from) list[n++] = tagOf(from[i]);
    return list;
  };
  // Options are read once, in the order of the standard, which is about that of the alphabet.
  const picked = (options, names, strict) => {
    const made = { __proto__: null };
    if (options === undefined) return made;
    if (options === null || (strict && !isObject(options))) throw new errors.TypeError("Options must be an object");
    const from = Object(options);
    for (let i = 0; i < names.length; i++) {
      const value = from[names[i]];
      if (value !== undefined) made[names[i]] = isObject(value) ? String(value) : value;
    }
    return made;
  };
  // Everything is looked up as it is named.
  const settings = (kind, options) => {
    const made = picked(options, kind.options, kind.strict);
    const { localeMatcher } = made;
    if (localeMatcher !== undefined && localeMatcher !== "lookup" && localeMatcher !== "best fit")
      throw new errors.RangeError(`${localeMatcher} is no value of localeMatcher`);
    if (kind.name !== "Locale") made.localeMatcher = "lookup";
    return made;
  };

  const number = (value) => (typeof value === "bigint" || typeof value === "string" ? value : Number(value));
  const time = (value) => (value === undefined ? now() : Number(value));
  const bothTimes = (value) => {
    if (value === undefined) throw new errors.TypeError("Both ends of a range must be given");
    return Number(value);
  };
  const bothNumbers = (value) => {
    if (value === undefined) throw new errors.TypeError("Both ends of a range must be given");
    return number(value);
  };
  const texts = (values) => {
    const list = library.list();
    let n = 0;
    if (values !== undefined)
      for (const value of values) {
        if (typeof value !== "string") throw new errors.TypeError("A list must be of strings");
        list[n++] = value;
      }
    return list;
  };

  const DATE = "weekday year month day";
  const words = (text) => {
    const list = [];
    for (let i = 0, from = 0; i <= text.length; i++)
      if (i === text.length || text[i] === " ") {
        put(list, list.length, intrinsics.slice(text, from, i));
        from = i + 1;
      }
    return list;
  };
  // name, whether `new` may be left out, options, methods with what their arguments become
  const KINDS = [
    {
      name: "NumberFormat",
      bare: true,
      options: words(
        "localeMatcher numberingSystem style currency currencyDisplay currencySign unit unitDisplay notation minimumIntegerDigits " +
          "minimumFractionDigits maximumFractionDigits minimumSignificantDigits maximumSignificantDigits roundingIncrement roundingMode " +
          "roundingPriority trailingZeroDisplay compactDisplay useGrouping signDisplay",
      ),
      format: number,
      methods: { formatToParts: [number], formatRange: [bothNumbers, bothNumbers], formatRangeToParts: [bothNumbers, bothNumbers] },
    },
    {
      name: "DateTimeFormat",
      bare: true,
      options: words(
        "localeMatcher calendar numberingSystem hour12 hourCycle timeZone weekday era year month day dayPeriod hour minute second " +
          "fractionalSecondDigits timeZoneName formatMatcher dateStyle timeStyle",
      ),
      format: time,
      methods: { formatToParts: [time], formatRange: [bothTimes, bothTimes], formatRangeToParts: [bothTimes, bothTimes] },
    },
    {
      name: "PluralRules",
      options: words(
        "localeMatcher type notation compactDisplay minimumIntegerDigits minimumFractionDigits maximumFractionDigits minimumSignificantDigits " +
          "maximumSignificantDigits roundingIncrement roundingMode roundingPriority trailingZeroDisplay",
      ),
      methods: { select: [Number], selectRange: [bothNumbers, bothNumbers] },
    },
    {
      name: "RelativeTimeFormat",
      options: words("localeMatcher numberingSystem style numeric"),
      methods: { format: [Number, String], formatToParts: [Number, String] },
    },
    {
      name: "ListFormat",
      strict: true,
      options: words("localeMatcher type style"),
      methods: { format: [texts], formatToParts: [texts] },
    },
    {
      name: "DisplayNames",
      strict: true,
      least: 2,
      options: words("localeMatcher style type fallback languageDisplay"),
      methods: { of: [String] },
    },
  ];
  const LOCALE = {
    name: "Locale",
    options: words("language script region variants calendar collation firstDayOfWeek hourCycle caseFirst numeric numberingSystem"),
    getters: words("baseName calendar caseFirst collation firstDayOfWeek hourCycle language numberingSystem numeric region script variants"),
    lists: words("getCalendars getHourCycles getNumberingSystems getTextInfo getTimeZones getWeekInfo"),
  };

  const named = (name, length, act) => {
    fix(act, "name", name);
    fix(act, "length", length);
    return act;
  };
  const inner = (self, kind, method) => {
    const found = Stamp.inner(self, kind.name);
    if (found !== undefined) return found;
    throw new errors.TypeError(`Method Intl.${kind.name}.prototype.${method} called on incompatible receiver`);
  };
  const method = (prototype, kind, name, length, act) => {
    const { [name]: made } = {
      [name](first, second) {
        return act(inner(this, kind, name), first, second);
      },
    };
    hide(prototype, name, named(name, length, made));
  };
  const getter = (prototype, kind, name, act) => {
    const { get } = {
      get() {
        return act(inner(this, kind, name), this);
      },
    };
    defineProperty(prototype, name, { __proto__: null, get: named(`get ${name}`, 0, get), set: undefined, enumerable: false, configurable: true });
  };
  const make = (kind, locales, options) => {
    const list = tags(locales);
    return ask(library.make, kind.name, list, settings(kind, options));
  };

  const Intl = {};
  fix(Intl, intrinsics.toStringTag, "Intl");
  const finish = (kind, made) => {
    const { prototype } = made;
    named(kind.name, kind.least ?? (kind.name === "Locale" ? 1 : 0), made);
    defineProperty(made, "prototype", { __proto__: null, writable: false, enumerable: false, configurable: false });
    fix(prototype, intrinsics.toStringTag, `Intl.${kind.name}`);
    hide(Intl, kind.name, made);
    return prototype;
  };
  const statics = (kind, made) => {
    const { supportedLocalesOf } = {
      supportedLocalesOf(locales, options) {
        const list = tags(locales);
        const { localeMatcher } = settings({ name: "Locale", options: words("localeMatcher") }, options);
        return own(ask(library.supported, kind.name, list, localeMatcher === undefined ? undefined : { __proto__: null, localeMatcher }));
      },
    };
    hide(made, "supportedLocalesOf", named("supportedLocalesOf", 1, supportedLocalesOf));
  };
  const build = (kind) => {
    const made = function (locales, options) {
      if (new.target === undefined && !kind.bare) throw new errors.TypeError(`Constructor Intl.${kind.name} requires 'new'`);
      const object = construct(Object, [], new.target ?? made);
      new Stamp(object, kind.name, make(kind, locales, options));
      return object;
    };
    const prototype = finish(kind, made);
    statics(kind, made);
    const { format, methods } = kind;
    if (format !== undefined)
      getter(prototype, kind, "format", (held, self) =>
        Stamp.bound(self, () => named("", 1, (value) => ask(library.call, held, "format", format(value)))),
      );
    const names = ownKeys(methods);
    for (let i = 0; i < names.length; i++) {
      const name = names[i];
      const takes = methods[name];
      method(prototype, kind, name, takes.length, (held, a, b) => {
        const first = takes[0](a);
        if (takes.length === 1) return own(ask(library.call, held, name, first));
        return own(ask(library.call, held, name, first, takes[1](b)));
      });
    }
    method(prototype, kind, "resolvedOptions", 0, (held) => own(ask(library.call, held, "resolvedOptions")));
  };
  for (let i = 0; i < KINDS.length; i++) build(KINDS[i]);

  const Locale = function (tag, options) {
    if (new.target === undefined) throw new errors.TypeError("Constructor Intl.Locale requires 'new'");
    const text = tagOf(tag);
    const object = construct(Object, [], new.target);
    new Stamp(object, "Locale", ask(library.make, "Locale", text, settings(LOCALE, options)));
    return object;
  };
  const prototype = finish(LOCALE, Locale);
  for (let i = 0; i < LOCALE.getters.length; i++) {
    const name = LOCALE.getters[i];
    getter(prototype, LOCALE, name, (held) => ask(library.get, held, name));
  }
  for (let i = 0; i < LOCALE.lists.length; i++) {
    const name = LOCALE.lists[i];
    method(prototype, LOCALE, name, 0, (held) => own(ask(library.call, held, name)));
  }
  method(prototype, LOCALE, "toString", 0, (held) => ask(library.call, held, "toString"));
  for (let i = 0; i < 2; i++) {
    const name = i ? "minimize" : "maximize";
    method(prototype, LOCALE, name, 0, (held) => new Locale(ask(library.call, ask(library.call, held, name), "toString")));
  }

  const functions = {
    getCanonicalLocales(locales) {
      return own(ask(library.canonical, tags(locales)));
    },
    supportedValuesOf(key) {
      return own(ask(library.values, String(key)));
    },
  };
  hide(Intl, "getCanonicalLocales", functions.getCanonicalLocales);
  hide(Intl, "supportedValuesOf", functions.supportedValuesOf);

  // What stands in for components of which none is asked for.
  const TIME = "dayPeriod hour minute second fractionalSecondDigits";
  const withDefaults = (options, required, defaults) => {
    const made = settings(KINDS[1], options);
    const { dateStyle, timeStyle } = made;
    if (dateStyle !== undefined || timeStyle !== undefined) {
      if (required === "date" && timeStyle !== undefined) throw new errors.TypeError("timeStyle is no option of a date");
      if (required === "time" && dateStyle !== undefined) throw new errors.TypeError("dateStyle is no option of a time");
      return made;
    }
    const asked = words(required === "date" ? DATE : required === "time" ? TIME : `${DATE} ${TIME}`);
    for (let i = 0; i < asked.length; i++) if (made[asked[i]] !== undefined) return made;
    const given = words(defaults === "date" ? "year month day" : defaults === "time" ? "hour minute second" : "year month day hour minute second");
    for (let i = 0; i < given.length; i++) made[given[i]] = "numeric";
    return made;
  };
  return {
    __proto__: null,
    Intl,
    number: (value, locales, options) => ask(library.call, make(KINDS[0], locales, options), "format", value),
    date(value, locales, options, required, defaults) {
      const list = tags(locales);
      const held = ask(library.make, "DateTimeFormat", list, withDefaults(options, required, defaults));
      return ask(library.call, held, "format", value);
    },
  };
})
