# Runs once, when the base image is made. Its value is the driver, an object that no constant and
# no variable of the guest names. The host calls `run` on it. What code of the guest may redefine
# (inspect, message, to_s, respond_to? ...) is called through method objects taken here, or with a
# rescue around it.

require "js"
%w[json set time date securerandom stringio strscan digest pp forwardable delegate singleton erb
   tempfile tmpdir fileutils pathname shellwords optparse timeout yaml uri zlib].each do |name|
  require name
end

$stdout.sync = true
$stderr.sync = true
$0 = "ruby"

# The build knows no locale, and takes values of the environment beyond ASCII for bytes.
ENV.singleton_class.prepend(Module.new do
  read = lambda do |value|
    case value
    when String
      value.encoding == Encoding::BINARY ? value.dup.force_encoding("UTF-8").freeze : value
    when Array then value.map(&read)
    when Hash then value.to_h { |name, text| [read.(name), read.(text)] }
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
    DEPTH = 64
    FRAMES = 20
    TOP = ::TOPLEVEL_BINDING
    INT = 2**53 - 1
    ESCAPES = { '"' => '\\"', "\\" => "\\\\", "\n" => '\\n', "\r" => '\\r', "\t" => '\\t' }
    32.times { |n| ESCAPES[n.chr] ||= format('\\u%04x', n) }
    ESCAPES.freeze
    WIRE = /["\\\x00-\x1f]/
    FORMS = [[:to_html, "text/html"], [:to_svg, "image/svg+xml"], [:to_png, "image/png"]].freeze
    ARRAY = ::Array
    BYTES = ::Encoding::BINARY
    DIR = ::Dir
    ENVIRONMENT = ::ENV
    EXCEPTION = ::Exception
    FALSE = false
    FLOAT = ::Float
    HASH = ::Hash
    INTEGER = ::Integer
    KERNEL = ::Kernel
    OBJECT = ::Object
    INPUT = ::STDIN
    READ = ::IO.instance_method(:read)
    STRING = ::String
    SYNTAX = ::SyntaxError
    SYSTEM_EXIT = ::SystemExit
    STATUS = ::SystemExit.instance_method(:status)
    UTF8 = ::Encoding::UTF_8
    DOOR = ::JS.method(:eval)
    INBOX = DOOR.call("")
    TEXT_OF = ::JS::Object.instance_method(:to_s)
    EMPTY = ::String.instance_method(:empty?)
    ENCODE = ::String.instance_method(:force_encoding)
    HASH_OF = ::Hash.method(:[])
    MAP = ::Array.instance_method(:map)
    NUMBER = ::String.instance_method(:to_i)
    SPACE = / /
    FIELD = { " " => "a" }.freeze
    SPLIT = ::String.instance_method(:split)
    UNPACK = ::String.instance_method(:unpack)

    CLASS = ::Kernel.instance_method(:class)
    INSTANCE = ::Kernel.instance_method(:instance_of?)
    KIND = ::Kernel.instance_method(:kind_of?)
    NAME = ::Module.instance_method(:name)
    PLAIN = ::Kernel.instance_method(:to_s)
    RESPOND = ::Kernel.instance_method(:respond_to?)
    MODULE_TEXT = ::Module.instance_method(:to_s)
    TRACE = ::Exception.instance_method(:backtrace)
    GSUB = ::String.instance_method(:gsub)
    DIGITS = ::Integer.instance_method(:to_s)
    DECIMAL = ::Float.instance_method(:to_s)
    CAUSE = ::Exception.instance_method(:cause)
    EVAL = ::Binding.instance_method(:eval)

    def run
      code, cwd, line, seed, environment = request
      KERNEL.srand(seed) if seed
      enter(cwd)
      environment(environment)
      value = error = nil
      left = true
      begin
        value = EVAL.bind_call(TOP, code, line, 1)
        value = nil.equal?(value) ? nil : result(value)
        left = false
      rescue EXCEPTION => e
        value = nil
        error = attempt { failure(e, line) } || bare(e)
        left = false
      ensure
        # A `return` outside of methods unwinds to here, and no further.
        return answer(nil, RETURNED) if left
      end
      answer(value, error)
    end

    RETURNED = '{"name":"LocalJumpError","message":"unexpected return",' \
               '"traceback":["unexpected return (LocalJumpError)"]}'

    def answer(value, error)
      flush
      drain
      '{"cwd":' + quote(here) + ',"result":' + (value || "null") + ',"error":' +
        (error || "null") + "}"
    end

    # Code, working directory, name of the code, seed or nil, environment. Without arithmetic and
    # without methods of arrays: code may have made them anything, and is to be heard all the same.
    def request
      head, rest = SPLIT.bind_call(TEXT_OF.bind_call(INBOX), "\n", 2)
      texts = UNPACK.bind_call(rest, "a#{GSUB.bind_call(head, SPACE, FIELD)}")
      code, cwd, line, seed, *environment = MAP.bind_call(texts) { |text| ENCODE.bind_call(text, UTF8) }
      seed = EMPTY.bind_call(seed) ? nil : NUMBER.bind_call(seed)
      [code, cwd, line, seed, HASH_OF.call(*environment)]
    end

    # A result as JSON: text, json where nothing is lost, further forms.
    def result(value)
      text = utf8(shown(value))
      parts = ['"text":' + quote(shorten(text))]
      json = lossless(value)
      parts << '"json":' + json if json
      at = 0
      while at < FORMS.length
        name, type = FORMS[at]
        at += 1
        form = form(value, name, type)
        parts << form if form
      end
      "{" + parts.join(",") + "}"
    end

    def form(value, name, type)
      return unless RESPOND.bind_call(value, name)
      form = value.__send__(name)
      return unless KIND.bind_call(form, STRING)
      form = type == "image/png" ? [form].pack("m0") : utf8(form)
      quote(type) + ":" + quote(form)
    rescue EXCEPTION
      nil
    end

    def display(value)
      json = result(value)
      DOOR.call(json)
      nil
    end

    def display_as(forms)
      text = nil
      parts = forms.map do |type, data|
        type = utf8(STRING.new(type))
        data = type.match?(/\A(text\/|image\/svg|application\/(json|javascript))/) ? utf8(data) : [data].pack("m0")
        text = data if type == "text/plain"
        quote(type) + ":" + quote(data)
      end
      parts.unshift('"text":' + quote(text || "")) 
      DOOR.call("{" + parts.join(",") + "}")
      nil
    end

    def shown(value)
      text = value.inspect
      KIND.bind_call(text, STRING) ? text : PLAIN.bind_call(value)
    rescue EXCEPTION
      PLAIN.bind_call(value)
    end

    def shorten(text)
      return text if text.bytesize <= LIMIT
      text.byteslice(0, LIMIT).scrub("") + "... (#{text.bytesize} bytes)"
    end

    # JSON that every reader takes for the same value, or nil.
    def lossless(value)
      out = STRING.new(encoding: UTF8)
      encode(value, out, 0) ? out : nil
    rescue EXCEPTION
      nil
    end

    # Whether it could be done. Without blocks and exceptions: the build traps where an exception
    # passes many calls of C on its way.
    def encode(value, out, depth)
      return false if depth > DEPTH || out.bytesize > LIMIT
      case
      when nil.equal?(value) then out << "null"
      when true.equal?(value) then out << "true"
      when false.equal?(value) then out << "false"
      when INSTANCE.bind_call(value, INTEGER)
        return false unless value.between?(-INT, INT)
        out << DIGITS.bind_call(value)
      when INSTANCE.bind_call(value, FLOAT)
        return false unless value.finite?
        out << DECIMAL.bind_call(value)
      when INSTANCE.bind_call(value, STRING)
        return false if value.encoding == BYTES || value.bytesize > LIMIT || !value.valid_encoding?
        out << quote(value.encoding == UTF8 ? value : value.encode(UTF8))
      when INSTANCE.bind_call(value, ARRAY) then return items(value, out, depth)
      when INSTANCE.bind_call(value, HASH) then return pairs(value, out, depth)
      else return false
      end
      true
    end

    def items(array, out, depth)
      out << "["
      at = 0
      while at < array.length
        out << "," if at > 0
        return false unless encode(array[at], out, depth + 1)
        at += 1
      end
      out << "]"
      true
    end

    def pairs(hash, out, depth)
      keys = hash.keys
      out << "{"
      at = 0
      while at < keys.length
        key = keys[at]
        return false unless INSTANCE.bind_call(key, STRING)
        out << "," if at > 0
        return false unless encode(key, out, depth + 1)
        out << ":"
        return false unless encode(hash[key], out, depth + 1)
        at += 1
      end
      out << "}"
      true
    end

    def failure(error, line)
      name = class_name(error)
      message = utf8(attempt { error.message } || "")
      if message == "exit" && KIND.bind_call(error, SYSTEM_EXIT)
        message = "exit " + DIGITS.bind_call(STATUS.bind_call(error))
      end
      frames = frames(error)
      number = line_of(error, message, frames, line)
      '{"name":' + quote(name) + ',"message":' + quote(shorten(message)) +
        ',"traceback":[' + trace(error, name, message, frames).map { |l| quote(l) }.join(",") +
        ']' + (number ? ',"lineNumber":' + DIGITS.bind_call(number) : "") + "}"
    end

    # Where the guest has redefined what a traceback is made with.
    def bare(error)
      message = utf8(attempt { error.message } || "")
      '{"name":' + quote(class_name(error)) + ',"message":' + quote(message) + ',"traceback":[]}'
    end

    def trace(error, name, message, frames, depth = 0)
      head = frames.first ? "#{frames.first}: " : ""
      lines = shorten(message).lines(chomp: true)
      lines[0] = "#{lines[0]} (#{name})".strip
      out = [head + lines[0], *lines.drop(1)]
      rest = frames.drop(1)
      if rest.size > 2 * FRAMES
        left = rest.size - 2 * FRAMES
        rest = rest.first(FRAMES) + ["... #{left} levels ..."] + rest.last(FRAMES)
      end
      rest.each { |frame| out << "\tfrom #{frame}" }
      cause = attempt { CAUSE.bind_call(error) }
      if cause && depth < 8
        out.concat(trace(cause, class_name(cause), utf8(attempt { cause.message } || ""), frames(cause), depth + 1))
      end
      out
    end

    # Frames of the guest's code: none of the driver's, and nothing below it.
    def frames(error)
      found = attempt { TRACE.bind_call(error) }
      return [] unless KIND.bind_call(found, ARRAY)
      found.filter_map do |frame|
        frame = utf8(frame)
        frame unless frame.start_with?("<driver>:", "eval:", "(eval at <driver>")
      end
    end

    def line_of(error, message, frames, line)
      start = line + ":"
      places = KIND.bind_call(error, SYNTAX) ? [message, *frames] : frames
      at = places.find { |place| place.start_with?(start) }
      number = at && at.byteslice(start.bytesize, 12).to_i
      number if number && number > 0
    end

    def class_name(error)
      type = CLASS.bind_call(error)
      utf8(attempt { NAME.bind_call(type) } || MODULE_TEXT.bind_call(type))
    end

    def attempt
      yield
    rescue EXCEPTION
      nil
    end

    # Text as valid UTF-8; bytes that are none become replacement characters.
    def utf8(text)
      text = STRING.new(text.to_s)
      text.force_encoding(UTF8) if text.encoding == BYTES
      text.encode(UTF8, invalid: :replace, undef: :replace).scrub
    rescue EXCEPTION
      text.dup.force_encoding(UTF8).scrub
    end

    def quote(text)
      '"' + GSUB.bind_call(text, WIRE, ESCAPES) + '"'
    end

    # The name is kept in memory: the directory may be gone since.
    def enter(cwd)
      DIR.chdir(cwd) unless here == cwd && DIR.exist?(cwd)
    rescue EXCEPTION
      attempt { DIR.chdir("/workspace") } || attempt { DIR.chdir("/") }
    end

    def here
      utf8(DIR.pwd)
    rescue EXCEPTION
      "/workspace"
    end

    # What the code itself changed stays: only what is given in another way is changed.
    def environment(wanted)
      return if @given == wanted

      if @given
        @given.each_key { |name| ENVIRONMENT.delete(name) unless wanted.key?(name) }
        wanted.each { |name, value| ENVIRONMENT[name] = value unless @given[name] == value }
      else
        ENVIRONMENT.replace(wanted)
      end
      @given = wanted
    end

    # What was not read of this input is not of the next one.
    def drain
      nil while READ.bind_call(INPUT, 1 << 16)
    rescue EXCEPTION
      nil
    end

    def flush
      attempt { $stdout.flush }
      attempt { STDOUT.flush }
      attempt { $stderr.flush }
    end
  end

  TOPLEVEL_BINDING.receiver.define_singleton_method(:display) do |*values, **forms|
    forms.empty? ? values.each { |value| driver.display(value) } : driver.display_as(forms)
    nil
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
  Object.__send__(:remove_const, :JS)
end
