# frozen_string_literal: true

# Runs once, when the base image is made. Its value is the driver, an object that no constant and
# no variable of the guest names. The host calls `run` on it. What code of the guest may redefine
# (inspect, message, to_s, respond_to? ...) is called through method objects taken here, on values
# of a known class: no operator and no implicit conversion meets a method of the guest. Methods of
# a value's own (inspect, message, to_html) are called where its text is told, and nowhere else.

require "js"
%w[json set time date securerandom stringio strscan digest pp forwardable delegate singleton erb
   tempfile tmpdir fileutils pathname shellwords optparse timeout yaml uri zlib].each do |name|
  require name
end

$stdout.sync = true
$stderr.sync = true
$0 = "ruby"

# The build knows no locale, and takes values of the environment beyond ASCII for bytes.
SET, DELETE = ENV.method(:[]=).unbind, ENV.method(:delete).unbind
ENV.singleton_class.prepend(Module.new do
  string, array, hash, bytes = String, Array, Hash, Encoding::BINARY
  kind = Kernel.instance_method(:kind_of?)
  read = lambda do |value|
    if kind.bind_call(value, string)
      bytes.equal?(value.encoding) ? value.dup.force_encoding("UTF-8").freeze : value
    elsif kind.bind_call(value, array) then value.map(&read)
    elsif kind.bind_call(value, hash) then value.to_h { |name, text| [read.(name), read.(text)] }
    else value
    end
  end
  %i[[] assoc delete delete_if each each_key each_pair each_value except fetch filter find_all
     invert key keys map rassoc reject select shift slice to_a to_h to_hash values values_at].each do |name|
    define_method(name) do |*arguments, &block|
      block &&= block.then { |user| proc { |*items| user.call(*read.(items)) } }
      read.(super(*arguments, &block))
    end
  end
  define_method(:inspect) { to_h.inspect }
end)

Object.new.tap do |driver|
  class << driver
    LIMIT = 1 << 20
    BEYOND = LIMIT + 1
    DEPTH = 64
    FRAMES = 20
    EDGE = FRAMES + 1
    TOP = ::TOPLEVEL_BINDING
    INT = 2**53 - 1
    LEAST = -INT
    ESCAPES = { '"' => '\\"', "\\" => "\\\\", "\n" => '\\n', "\r" => '\\r', "\t" => '\\t' }
    32.times { |n| ESCAPES[n.chr] ||= format('\\u%04x', n) }
    ESCAPES.each_value(&:freeze)
    ESCAPES.freeze
    WIRE = /["\\\x00-\x1f]/
    ARRAY, EXCEPTION, FLOAT, HASH, INTEGER = ::Array, ::Exception, ::Float, ::Hash, ::Integer
    STREAM, KERNEL, OBJECT, STRING = ::IO, ::Kernel, ::Object, ::String
    SYNTAX, SYSTEM_EXIT = ::SyntaxError, ::SystemExit
    ASCII, BYTES, UTF8 = ::Encoding::US_ASCII, ::Encoding::BINARY, ::Encoding::UTF_8
    DIR, ENVIRONMENT = ::Dir, ::ENV
    OUTPUT = ::STDOUT
    # What is read to its end after each execution.
    INPUT = [::STDIN]
    BRIDGE = ::JS
    DOOR = ::JS.method(:eval).unbind
    INBOX = DOOR.bind_call(BRIDGE, "")
    TEXT_OF = ::JS::Object.instance_method(:to_s)
    # For what catches all: it asks no method of the guest whether it does.
    ANY = ::Module.new { def self.===(_) = true }
    ANY.singleton_class.freeze
    # Whose methods, where code adds some, are not meant for this value or that.
    COMMON = [
      ::BasicObject, OBJECT, KERNEL, ::Comparable, ::Enumerable, ::NilClass, ::TrueClass, ::FalseClass, INTEGER,
      FLOAT, ::Numeric, STRING, ::Symbol, ARRAY, HASH, ::Range, ::Proc, ::Method, EXCEPTION, ::StandardError, ::Module, ::Class,
    ].freeze

    {
      ::Array => %i[AT=at LENGTH=length MAP=map PACK=pack PUSH=push PUT=[]=],
      ::BasicObject => %i[SAME=equal? SEND=__send__],
      ::Binding => %i[EVAL=eval],
      ::Exception => %i[CAUSE=cause TRACE=backtrace],
      ::Float => %i[DECIMAL=to_s FINITE=finite?],
      ::Hash => %i[EACH_KEY=each_key EMPTY_HASH=empty? FETCH=[] HAS=key? KEYS=keys VALUES=values],
      ::Integer => %i[DIGITS=to_s LESS=< MINUS=- PLUS=+],
      ::IO => %i[CLOSED=closed? FLUSH=flush READ=read SYNCED=sync=],
      ::Kernel => %i[CLASS=class INSTANCE=instance_of? KIND=kind_of? PLAIN=to_s RESPOND=respond_to? SINGLETON=singleton_class SINGLETONS=singleton_methods],
      ::Module => %i[CONSTANT=const_defined? CONSTANT_SET=const_set CONSTANT_REMOVED=remove_const DEFINED=public_method_defined? GET=const_get METHOD=instance_method MODULE_TEXT=to_s NAME=name],
      ::String => %i[
        APPEND=<< BYTESIZE=bytesize BYTESLICE=byteslice CLEAR=clear EMPTY=empty? ENCODE=force_encoding ENCODING=encoding EQUAL===
        GSUB=gsub INCLUDE=include? LINES=lines MATCH=match? NUMBER=to_i SCRUB=scrub SIZE=length SPLIT=split START=start_with?
        STRIP=strip TRANSCODE=encode UNPACK=unpack UPCASE=upcase VALID=valid_encoding?
      ],
      ::SystemExit => %i[STATUS=status],
      ::UnboundMethod => %i[OWNER=owner SOURCE=source_location],
    }.each do |owner, names|
      names.each do |name|
        constant, method = name.to_s.split("=", 2)
        const_set(constant, owner.instance_method(method))
      end
    end
    ENTER, HERE = ::Dir.method(:chdir).unbind, ::Dir.method(:pwd).unbind
    REPLACE, SET, DELETE = ::ENV.method(:replace).unbind, ::SET, ::DELETE
    FRESH, RANDOM = ::Random.method(:urandom).unbind, ::Random
    FOR_NUMBER = ::IO.method(:for_fd).unbind
    HASH_OF = ::Hash.method(:[]).unbind
    NEW = ::String.method(:new).unbind
    PAIR = /../
    # Bytes as `\xFF`.
    NUMBERED = proc { |bytes| GSUB.bind_call(UPCASE.bind_call(AT.bind_call(UNPACK.bind_call(bytes, "H*"), 0)), PAIR, '\\x\0') }
    SPACE = / /
    FIELD = { " " => "a" }.freeze
    BINARY_FORM = /\A(?!text\/|image\/svg|application\/(?:json|javascript))/
    CHECK = "<check>"
    # The environment as it was last given.
    GIVEN = ["none", nil]
    # How many executions there were.
    COUNT = [0]
    # What mixes bytes into OpenSSL's random numbers, and of what it is a method.
    MIXER = [nil, nil]

    def run
      code, cwd, line, seed, environment = parse(TEXT_OF.bind_call(INBOX))
      # To see whether code can run: whether there is room, when what was thrown away is collected.
      CLEAR.bind_call(NEW.bind_call(STRING, capacity: 1 << 20)) if EQUAL.bind_call(line, CHECK)
      line = called(line)
      mix
      KERNEL.srand(seed) if seed
      enter(cwd)
      environment(environment)
      attempt { reopen }
      suspected = suspect?(code)
      value = error = nil
      left = true
      begin
        value = EVAL.bind_call(TOP, code, line, 1)
        value = SAME.bind_call(nil, value) ? nil : result(value)
        left = false
      rescue ANY => e
        value = nil
        error = told(e, line)
        left = false
      ensure
        # A `return` outside of methods unwinds to here, and no further. So does an error where
        # code redefined what decides whether one is rescued.
        return answer(nil, (e = $!) ? told(e, line) : RETURNED, suspected) if left
      end
      answer(value, error, suspected)
    end

    # Code is called by its number; what the host tries in between has a name of its own.
    def called(line)
      return line unless EQUAL.bind_call(line, "<code>")
      attempt do
        count = PLUS.bind_call(AT.bind_call(COUNT, 0), 1)
        PUT.bind_call(COUNT, 0, count)
        "<code #{DIGITS.bind_call(count)}>"
      end || line
    end

    # OpenSSL draws from a state in memory of its own, which a fork and a state to go back to would
    # have draw the same again. Where it is loaded, something fresh goes in; it is a function of C,
    # or it is not what this is about.
    def mix
      unless AT.bind_call(MIXER, 0)
        return unless CONSTANT.bind_call(OBJECT, :OpenSSL, false)
        random = attempt { GET.bind_call(GET.bind_call(OBJECT, :OpenSSL, false), :Random, false) }
        seed = attempt { METHOD.bind_call(SINGLETON.bind_call(random), :seed) }
        return unless seed && SAME.bind_call(nil, SOURCE.bind_call(seed))
        attempt { PUT.bind_call(MIXER, 1, random) && PUT.bind_call(MIXER, 0, seed) }
      end
      attempt { AT.bind_call(MIXER, 0).bind_call(AT.bind_call(MIXER, 1), FRESH.bind_call(RANDOM, 48)) }
    end

    # Whether there is in code what is in code that takes away what the driver needs: too much rather
    # than too little. Searched for, as patterns take their time in long code.
    def suspect?(code)
      INCLUDE.bind_call(code, "class") || INCLUDE.bind_call(code, "def") || INCLUDE.bind_call(code, "module") ||
        INCLUDE.bind_call(code, "alias") || INCLUDE.bind_call(code, "ethod") || INCLUDE.bind_call(code, "Object") ||
        INCLUDE.bind_call(code, "race") || INCLUDE.bind_call(code, "RubyVM") || INCLUDE.bind_call(code, "eval") ||
        INCLUDE.bind_call(code, "exec") || INCLUDE.bind_call(code, "send") || INCLUDE.bind_call(code, "require")
    end

    # Whether a request can be read, run and answered after this one.
    def sound
      code, cwd, line, seed, environment = parse(SAMPLE)
      value = EVAL.bind_call(TOP, code, line, 1)
      EQUAL.bind_call(lossless(value), SOUND) && EQUAL.bind_call(quote(shorten(utf8(line))), '"<check>"')
    end

    SAMPLE = "18 1 7 0 0\n[1, 0.5, 'a', nil]/<check>"
    SOUND = '[1,0.5,"a",null]'
    RETURNED = '{"name":"LocalJumpError","message":"unexpected return",' \
               '"traceback":["unexpected return (LocalJumpError)"]}'

    def answer(value, error, suspected)
      flush
      drain
      broken = (suspected ? attempt { sound } : true) ? "" : ',"broken":true'
      "{\"cwd\":#{quote(here)},\"result\":#{value || "null"},\"error\":#{error || "null"}#{broken}}"
    end

    # Code, working directory, name of the code, seed or nil, environment. Without arithmetic and
    # without methods of arrays: code may have made them anything, and is to be heard all the same.
    def parse(text)
      code, cwd, line, seed, environment = fields(text)
      [code, cwd, line, EMPTY.bind_call(seed) ? nil : NUMBER.bind_call(seed), environment]
    end

    # Texts, with a line before them that has the length of each.
    def fields(text)
      head, rest = SPLIT.bind_call(text, "\n", 2)
      texts = UNPACK.bind_call(rest, "a#{GSUB.bind_call(head, SPACE, FIELD)}")
      MAP.bind_call(texts) { |text| ENCODE.bind_call(text, UTF8) }
    end

    # A result as JSON: text, json where nothing is lost, further forms.
    def result(value)
      text = utf8(shown(value))
      rest = rest(text)
      json = lossless(value)
      rest = ',"cut":""' if EMPTY.bind_call(rest) && SAME.bind_call(json, false)
      json = json ? ",\"json\":#{json}" : ""
      "{\"text\":#{quote(head(text))}#{rest}#{json}#{forms(value)}}"
    end

    # Further forms, where the value has methods for them.
    def forms(value)
      type = CLASS.bind_call(value)
      own = attempt { METHOD.bind_call(type, :respond_to_missing?) }
      own = own ? (among?(COMMON, OWNER.bind_call(own)) ? nil : RESPOND) : nil
      single = SINGLETONS.bind_call(value)
      "#{form(value, type, own, single, :to_html, "text/html")}#{form(value, type, own, single, :to_svg, "image/svg+xml")}" \
        "#{form(value, type, own, single, :to_png, "image/png")}"
    rescue ANY
      ""
    end

    def form(value, type, own, single, name, mime)
      return "" unless DEFINED.bind_call(type, name) || among?(single, name) || own&.bind_call(value, name)
      form = SEND.bind_call(value, name)
      return "" unless KIND.bind_call(form, STRING)
      ",#{quote(mime)}:#{quote(SAME.bind_call(name, :to_png) ? PACK.bind_call([form], "m0") : utf8(form))}"
    rescue ANY
      ""
    end

    def among?(list, one)
      at = 0
      length = LENGTH.bind_call(list)
      while LESS.bind_call(at, length)
        return true if SAME.bind_call(one, AT.bind_call(list, at))
        at = PLUS.bind_call(at, 1)
      end
      false
    end

    # What `display` was given.
    def display(values, forms)
      return display_as(KEYS.bind_call(forms), VALUES.bind_call(forms)) unless EMPTY_HASH.bind_call(forms)
      at = 0
      while LESS.bind_call(at, LENGTH.bind_call(values))
        DOOR.bind_call(BRIDGE, result(AT.bind_call(values, at)))
        at = PLUS.bind_call(at, 1)
      end
    end

    def display_as(types, forms)
      text = ""
      parts = NEW.bind_call(STRING, encoding: UTF8)
      at = 0
      while LESS.bind_call(at, LENGTH.bind_call(types))
        type = utf8(AT.bind_call(types, at))
        form = AT.bind_call(forms, at)
        form = MATCH.bind_call(type, BINARY_FORM) ? PACK.bind_call([form], "m0") : utf8(form)
        text = form if EQUAL.bind_call(type, "text/plain")
        APPEND.bind_call(parts, ",#{quote(type)}:#{quote(form)}")
        at = PLUS.bind_call(at, 1)
      end
      DOOR.bind_call(BRIDGE, "{\"text\":#{quote(text)}#{parts}}")
    end

    def shown(value)
      text = value.inspect
      KIND.bind_call(text, STRING) ? text : PLAIN.bind_call(value)
    rescue ANY
      PLAIN.bind_call(value)
    end

    def head(text)
      return text unless LESS.bind_call(LIMIT, BYTESIZE.bind_call(text))
      SCRUB.bind_call(BYTESLICE.bind_call(text, 0, LIMIT), "")
    end

    # What is told of a text's rest: how many characters it has.
    def rest(text)
      return "" unless LESS.bind_call(LIMIT, BYTESIZE.bind_call(text))
      ",\"cut\":\"#{DIGITS.bind_call(MINUS.bind_call(SIZE.bind_call(text), SIZE.bind_call(head(text))))}\""
    end

    def shorten(text)
      return text unless LESS.bind_call(LIMIT, BYTESIZE.bind_call(text))
      "#{head(text)}… #{DIGITS.bind_call(MINUS.bind_call(SIZE.bind_call(text), SIZE.bind_call(head(text))))} more characters"
    end

    # JSON that every reader takes for the same value, or nil; false where it is too long.
    def lossless(value)
      out = NEW.bind_call(STRING, encoding: UTF8)
      return out if encode(value, out, 0)
      LESS.bind_call(LIMIT, BYTESIZE.bind_call(out)) ? false : nil
    rescue ANY
      nil
    end

    # Whether it could be done. Without blocks and exceptions: the build traps where an exception
    # passes many calls of C on its way.
    def encode(value, out, depth)
      return false if LESS.bind_call(LIMIT, BYTESIZE.bind_call(out))
      unless value
        APPEND.bind_call(out, SAME.bind_call(nil, value) ? "null" : "false")
        return true
      end

      if INSTANCE.bind_call(value, INTEGER)
        return false if LESS.bind_call(INT, value) || LESS.bind_call(value, LEAST)
        APPEND.bind_call(out, DIGITS.bind_call(value))
      elsif INSTANCE.bind_call(value, STRING)
        encoding = ENCODING.bind_call(value)
        return false if SAME.bind_call(encoding, BYTES)
        return false unless VALID.bind_call(value)
        value = TRANSCODE.bind_call(value, UTF8) unless SAME.bind_call(encoding, UTF8)
        if LESS.bind_call(LIMIT, BYTESIZE.bind_call(value))
          APPEND.bind_call(out, BYTESLICE.bind_call(value, 0, BEYOND))
          return false
        end
        APPEND.bind_call(out, quote(value))
      elsif INSTANCE.bind_call(value, ARRAY)
        return items(value, out, PLUS.bind_call(depth, 1))
      elsif INSTANCE.bind_call(value, HASH)
        return pairs(value, out, PLUS.bind_call(depth, 1))
      elsif INSTANCE.bind_call(value, FLOAT)
        return false unless FINITE.bind_call(value)
        APPEND.bind_call(out, DECIMAL.bind_call(value))
      elsif SAME.bind_call(true, value)
        APPEND.bind_call(out, "true")
      else
        return false
      end
      true
    end

    def items(array, out, depth)
      return false if LESS.bind_call(DEPTH, depth)
      between = "["
      length = LENGTH.bind_call(array)
      at = 0
      while LESS.bind_call(at, length)
        APPEND.bind_call(out, between)
        return false unless encode(AT.bind_call(array, at), out, depth)
        between = ","
        at = PLUS.bind_call(at, 1)
      end
      APPEND.bind_call(out, SAME.bind_call(at, 0) ? "[]" : "]")
      true
    end

    def pairs(hash, out, depth)
      return false if LESS.bind_call(DEPTH, depth)
      keys = KEYS.bind_call(hash)
      values = VALUES.bind_call(hash)
      between = "{"
      length = LENGTH.bind_call(keys)
      at = 0
      while LESS.bind_call(at, length)
        key = AT.bind_call(keys, at)
        return false unless INSTANCE.bind_call(key, STRING)
        APPEND.bind_call(out, between)
        return false unless encode(key, out, depth)
        APPEND.bind_call(out, ":")
        return false unless encode(AT.bind_call(values, at), out, depth)
        between = ","
        at = PLUS.bind_call(at, 1)
      end
      APPEND.bind_call(out, SAME.bind_call(at, 0) ? "{}" : "}")
      true
    end

    def failure(error, line)
      name = class_name(error)
      message = message(error)
      if KIND.bind_call(error, SYSTEM_EXIT) && EQUAL.bind_call(message, "exit")
        message = "exit #{DIGITS.bind_call(STATUS.bind_call(error))}"
      end
      frames = frames(error)
      number = line_of(error, message, frames, line)
      out = trace(error, name, message, frames, NEW.bind_call(STRING, encoding: UTF8), 0)
      "{\"name\":#{quote(name)},\"message\":#{quote(head(message))}#{rest(message)},\"traceback\":[#{out}]" \
        "#{number ? ",\"lineNumber\":#{DIGITS.bind_call(number)}" : ""}}"
    end

    def told(error, line)
      attempt { failure(error, line) } || bare(error)
    end

    def message(error)
      utf8(attempt { error.message } || "")
    end

    # Where the guest has redefined what a traceback is made with.
    def bare(error)
      "{\"name\":#{quote(class_name(error))},\"message\":#{quote(head(message(error)))},\"traceback\":[]}"
    end

    # Lines of a traceback, as JSON: where it was raised, the message, the frames, its cause.
    def trace(error, name, message, frames, out, depth)
      lines = LINES.bind_call(shorten(message), chomp: true)
      first = AT.bind_call(frames, 0)
      head = "#{AT.bind_call(lines, 0) || ""} (#{name})"
      add(out, "#{first ? "#{first}: " : ""}#{STRIP.bind_call(head)}")
      at = 1
      while LESS.bind_call(at, LENGTH.bind_call(lines))
        add(out, AT.bind_call(lines, at))
        at = PLUS.bind_call(at, 1)
      end
      at = 1
      length = LENGTH.bind_call(frames)
      last = MINUS.bind_call(length, FRAMES)
      while LESS.bind_call(at, length)
        if SAME.bind_call(at, EDGE) && LESS.bind_call(at, last)
          add(out, "\tfrom ... #{DIGITS.bind_call(MINUS.bind_call(last, at))} levels ...")
          at = last
        end
        add(out, "\tfrom #{AT.bind_call(frames, at)}")
        at = PLUS.bind_call(at, 1)
      end
      cause = CAUSE.bind_call(error)
      return out unless cause && LESS.bind_call(depth, 8)
      trace(cause, class_name(cause), message(cause), frames(cause), out, PLUS.bind_call(depth, 1))
    end

    def add(out, line)
      APPEND.bind_call(out, EMPTY.bind_call(out) ? quote(line) : ",#{quote(line)}")
    end

    # Frames of the guest's code: none of the driver's, and nothing below it.
    def frames(error)
      found = attempt { TRACE.bind_call(error) }
      kept = []
      return kept unless KIND.bind_call(found, ARRAY)
      at = 0
      while LESS.bind_call(at, LENGTH.bind_call(found))
        frame = utf8(AT.bind_call(found, at))
        PUSH.bind_call(kept, frame) unless START.bind_call(frame, "<driver>:", "eval:", "(eval at <driver>")
        at = PLUS.bind_call(at, 1)
      end
      kept
    end

    # The line of this execution's code in the innermost frame that is in it.
    def line_of(error, message, frames, line)
      start = "#{line}:"
      return number_of(message, start) || number_in(frames, start) if KIND.bind_call(error, SYNTAX)
      number_in(frames, start)
    end

    def number_in(frames, start)
      at = 0
      while LESS.bind_call(at, LENGTH.bind_call(frames))
        number = number_of(AT.bind_call(frames, at), start)
        return number if number
        at = PLUS.bind_call(at, 1)
      end
      nil
    end

    def number_of(place, start)
      return unless START.bind_call(place, start)
      number = NUMBER.bind_call(BYTESLICE.bind_call(place, BYTESIZE.bind_call(start), 12))
      number if LESS.bind_call(0, number)
    end

    def class_name(error)
      type = CLASS.bind_call(error)
      utf8(attempt { NAME.bind_call(type) } || MODULE_TEXT.bind_call(type))
    end

    # Left by `return`, which no redefinition changes, whatever is on its way.
    def attempt
      value = nil
      value = yield
    ensure
      return value
    end

    # Text as valid UTF-8; bytes that are none are told by their numbers.
    def utf8(text)
      text = "#{text}" unless KIND.bind_call(text, STRING)
      encoding = ENCODING.bind_call(text)
      return text if INSTANCE.bind_call(text, STRING) && SAME.bind_call(encoding, UTF8) && VALID.bind_call(text)
      text = BYTESLICE.bind_call(text, 0, BYTESIZE.bind_call(text))
      # What the source's encoding has no characters for is UTF-8 in most cases.
      if SAME.bind_call(encoding, BYTES) || SAME.bind_call(encoding, ASCII)
        ENCODE.bind_call(text, UTF8)
      elsif VALID.bind_call(text)
        text = TRANSCODE.bind_call(text, UTF8, fallback: NUMBERED)
      else
        ENCODE.bind_call(text, UTF8)
      end
      SCRUB.bind_call(text, &NUMBERED)
    rescue ANY
      SCRUB.bind_call(ENCODE.bind_call(BYTESLICE.bind_call(text, 0, BYTESIZE.bind_call(text)), UTF8), &NUMBERED)
    end

    def quote(text)
      "\"#{GSUB.bind_call(text, WIRE, ESCAPES)}\""
    end

    # The name is kept in memory: the directory may be gone since.
    def enter(cwd)
      attempt { ENTER.bind_call(DIR, cwd) } || attempt { ENTER.bind_call(DIR, "/workspace") } || attempt { ENTER.bind_call(DIR, "/") }
    end

    def here
      attempt { utf8(HERE.bind_call(DIR)) } || "/workspace"
    end

    # What the code itself changed stays: only what is given in another way is changed.
    def environment(text)
      return if EQUAL.bind_call(text, AT.bind_call(GIVEN, 0))

      wanted = EMPTY.bind_call(text) ? {} : HASH_OF.bind_call(HASH, *fields(text))
      given = AT.bind_call(GIVEN, 1)
      attempt { PUT.bind_call(GIVEN, 0, text) && PUT.bind_call(GIVEN, 1, wanted) }
      attempt { given ? change(given, wanted) : REPLACE.bind_call(ENVIRONMENT, wanted) }
    end

    def change(given, wanted)
      EACH_KEY.bind_call(given) { |name| DELETE.bind_call(ENVIRONMENT, name) unless HAS.bind_call(wanted, name) }
      EACH_KEY.bind_call(wanted) do |name|
        value = FETCH.bind_call(wanted, name)
        next if HAS.bind_call(given, name) && EQUAL.bind_call(value, FETCH.bind_call(given, name))
        SET.bind_call(ENVIRONMENT, name, value)
      end
    end

    # What was not read of this input is not of the next one.
    def drain
      attempt do
        input = AT.bind_call(INPUT, 0)
        nil while !closed?(input) && READ.bind_call(input, 65_536)
      end
    end

    # Standard streams that code closed are there again.
    def reopen
      attempt { PUT.bind_call(INPUT, 0, $stdin = fresh(:STDIN, 0, "r")) } if closed?($stdin)
      $stdout = fresh(:STDOUT, 1, "w") if closed?($stdout)
      $stderr = fresh(:STDERR, 2, "w") if closed?($stderr)
    end

    def closed?(stream) = KIND.bind_call(stream, STREAM) && CLOSED.bind_call(stream)

    def fresh(name, number, mode)
      stream = FOR_NUMBER.bind_call(STREAM, number, mode, autoclose: false)
      SYNCED.bind_call(stream, true)
      attempt { CONSTANT_REMOVED.bind_call(OBJECT, name) }
      attempt { CONSTANT_SET.bind_call(OBJECT, name, stream) }
      stream
    end

    # Only what is a stream of the system's keeps something back.
    def flush
      pass($stdout)
      pass(OUTPUT)
      pass($stderr)
    end

    def pass(stream)
      attempt { FLUSH.bind_call(stream) unless closed?(stream) } if KIND.bind_call(stream, STREAM)
    end
  end

  # Found by looking through all objects, it is still what it was.
  driver.singleton_class.freeze
  driver.freeze

  TOPLEVEL_BINDING.receiver.define_singleton_method(:display) do |*values, **forms|
    driver.display(values, forms)
    nil
  end
  # Each `eval` asks whether code is to be translated first. That is no question to what all objects have.
  same, respond = BasicObject.instance_method(:equal?), Kernel.instance_method(:respond_to?)
  RubyVM::InstructionSequence.define_singleton_method(:respond_to?) do |name, all = false|
    same.bind_call(name, :translate) ? false : respond.bind_call(self, name, all)
  end
  # There are no processes; without this some of them would answer as if there had been one.
  missing = ->(name) { ->(*, **) { raise NotImplementedError, "#{name}() function is unimplemented on this machine" } }
  %i[system spawn exec fork `].each do |name|
    Kernel.define_method(name, &missing[name])
    Kernel.__send__(:private, name)
    Kernel.define_singleton_method(name, &missing[name])
  end
  %i[spawn exec fork].each { |name| Process.define_singleton_method(name, &missing[name]) }
  IO.define_singleton_method(:popen, &missing[:popen])
  %i[JS SET DELETE].each { |name| Object.__send__(:remove_const, name) }
  # What the start left behind is not carried along in every context.
  GC.start
end
