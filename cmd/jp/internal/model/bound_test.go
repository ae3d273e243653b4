package model

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"jp/convstore"
	"jp/tools/jsondoc"
)

// TestTextBound holds the bound against what tokenizers make of texts of each class: the most of
// o200k_base, cl100k_base and those of Claude 2, Llama 2 (but for its token before each text) and
// Llama 3. Plain text must not be bounded so high that limits stop what they need not.
func TestTextBound(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		tokens     int64 // the most that one of them makes
		most       float64
	}{
		{"prose", "The main agent hands scoped work (research, planning, review) to cheaper sub-agents, each a process of its own.", 30, 1.7},
		{"german", "Dieses Programm ist ein Kommandozeilenassistent, dessen Unteragenten Betriebssystemprozesse sind.", 29, 1.6},
		{"code", "\tif err := t.save(ctx, abandoned(t.events)...); err != nil {\n\t\treturn Outcome{}, fmt.Errorf(\"%d: %w\", n, err)\n\t}\n", 49, 1.5},
		{"minified", "function(a,b){var c=a[b]||{};for(var d=0;d<c.length;d++){if(c[d]===e)return!0}return!1}", 49, 1.5},
		{"schema", `{"type":"object","properties":{"path":{"type":"string","description":"file to read"}},"required":["path"]}`, 27, 2.1},
		{"base64, Llama 2 apart", "dkV5c0N5L0ZyYzJ4d0xqWm1qS1pXQ1p4bGhYc2FqN2tQbGZqd3NhR0t6Zm9VbHpQbXE5TQ==", 66, 1.1},
		{"hex", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", 60, 1.1},
		{"uuids", "3f2b8c1e-9d47-4a6b-8e15-7c0d2f9a6b34\nc81e728d-9d4c-4f63-af06-7f89cc14862c\n", 72, 1.1},
		{"digits", "31415926535897932384626433832795028841971693993751058209749445923078164062862089", 80, 1},
		{"numbers", "17 4 90210 3 1729 65537 8 12 271828 5040 6 28 496 8128", 54, 1.1},
		{"csv", "0.113243,0.905617,0.000312,0.471190\n0.618034,0.414214,0.732051,0.236068\n", 72, 1.1},
		{"chinese", "这个程序是一个命令行助手，它的子代理是操作系统进程。主代理把有范围的工作交给更便宜的子代理。", 59, 2.1},
		{"japanese", "このプログラムはコマンドラインのアシスタントで、サブエージェントはプロセスです。", 41, 2.6},
		{"korean", "이 프로그램은 명령줄 도우미이며 하위 에이전트는 운영 체제 프로세스입니다.", 60, 1.6},
		{"russian", "Эта программа — помощник командной строки, чьи подчинённые агенты являются процессами.", 45, 2.7},
		{"thai", "โปรแกรมนี้เป็นผู้ช่วยบรรทัดคำสั่งซึ่งตัวแทนย่อยเป็นกระบวนการของระบบปฏิบัติการ", 146, 1.5},
		{"hindi", "यह कार्यक्रम एक कमांड लाइन सहायक है जिसके उप एजेंट ऑपरेटिंग सिस्टम प्रक्रियाएं हैं।", 96, 2},
		{"emoji", "👩‍👩‍👧‍👦🏳️‍🌈👨🏽‍💻🫠🪿🇺🇳", 59, 1.3},
		{"controls", "\x01\x02\x03\x04\x1b\a", 6, 1},
	} {
		got := textBound(tt.text)
		if got < tt.tokens || float64(got) > tt.most*float64(tt.tokens)+1 {
			t.Errorf("%s: %d tokens at most; a tokenizer makes %d, and %.1f times that is the highest it should be", tt.name, got, tt.tokens, tt.most)
		}
	}
}

func asks(texts ...string) Request {
	r := Request{System: []Section{{Text: "sys"}}}
	for _, t := range texts {
		r.Messages = append(r.Messages, Message{Role: User, Content: []Content{{Text: t}}})
	}
	return r
}

// TestMeter: what a provider has told of a request replaces the bound of all that comes again.
func TestMeter(t *testing.T) {
	var m Meter
	digits := func(n int) string { return strings.Repeat("7", n) }
	first := asks(digits(1000))
	if got, want := m.Bound(first), (Bound{Tokens: 1010, Hard: 1011}); got != want {
		t.Errorf("before anything was told: %+v, want %+v", got, want)
	}
	for _, tt := range []struct {
		name string
		told convstore.Usage
		next Request
		want Bound
	}{
		{"more of the same", convstore.Usage{Input: 100, CacheRead: 200, CacheWrite: 100}, asks(digits(1000), digits(50)), Bound{458, 458}},
		{"in another order", convstore.Usage{Input: 400}, asks(digits(50), digits(1000)), Bound{458, 458}},
		{"twice the same", convstore.Usage{Input: 400}, asks(digits(1000), digits(1000)), Bound{1408, 1408}},
		{"shorter, and something new", convstore.Usage{Input: 900}, asks(digits(200)), Bound{210, 1100}},
		{"more than its bound", convstore.Usage{Input: 2020}, asks(digits(1000), digits(50)), Bound{2020 + 2*58, 2078}},
		{"next to nothing", convstore.Usage{Input: 1}, asks(digits(1000), digits(50)), Bound{1010/8 + 58, 1010/8 + 58}},
		{"more than there are", convstore.Usage{Input: math.MaxInt64, CacheRead: math.MaxInt64, CacheWrite: math.MaxInt64}, asks(strings.Repeat("7", 3<<20)), Bound{3 * maxTokens, 3*maxTokens + 3<<20}},
		{"no count", convstore.Usage{Input: -7, CacheRead: -1}, first, Bound{1010 / 8, 1010 / 8}},
	} {
		m.Learn(first, tt.told, 0)
		if got := m.Bound(tt.next); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestMeterCovers: if a provider counts a text the same in each request, and never above its bound,
// no request has more tokens than its bound. Whatever a provider counts, no bound is negative.
func TestMeterCovers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		texts, tokens := make([]string, 6), make([]int64, 6)
		for i := range texts {
			n := rapid.IntRange(1, 3*short).Draw(rt, "size")
			texts[i], tokens[i] = strings.Repeat(string(rune('0'+i)), n), rapid.Int64Range(0, int64(n)).Draw(rt, "tokens")
		}
		around := rapid.Int64Range(0, messageTokens).Draw(rt, "around")
		draw := func() (r Request, counted int64) {
			r = asks()
			for _, i := range rapid.SliceOfN(rapid.IntRange(0, 5), 1, 8).Draw(rt, "texts") {
				r.Messages = append(r.Messages, asks(texts[i]).Messages...)
				counted += tokens[i] + around
			}
			return r, counted
		}
		var m Meter
		for range 5 {
			r, counted := draw()
			if b := m.Bound(r); b.Tokens < counted || b.Hard < counted {
				rt.Fatalf("%d tokens, at most %+v", counted, b)
			}
			m.Learn(r, convstore.Usage{Input: counted}, 0)
		}
		r, _ := draw()
		m.Learn(r, convstore.Usage{Input: rapid.Int64().Draw(rt, "input"), CacheRead: rapid.Int64().Draw(rt, "read")}, 0)
		image := Content{Image: &Image{MediaType: "image/webp", Data: []byte{1}}} // the most tokens for the fewest bytes
		next, _ := draw()
		for range rapid.IntRange(0, 2000).Draw(rt, "images") {
			next.Messages[0].Content = append(next.Messages[0].Content, image)
		}
		if b := m.Bound(next); b.Tokens < 0 || b.Hard < 0 {
			rt.Fatalf("at most %+v", b)
		}
	})
}

// TestMeterOfJSON: who reads a request from JSON bounds it as who has sent it, before and after a
// count.
func TestMeterOfJSON(t *testing.T) {
	odd := "a\xffb\xf0\x9f " + strings.Repeat("\xc3 <&> \u2028", 400)
	raw := json.RawMessage(" {\n \"a\" : [ 1,\t2 , \"<&>\u2028\" ] }\n")
	r := Request{
		Model: "claude-opus-4-7", Schema: raw, System: []Section{{Text: odd}}, Tools: []Tool{{Name: "t", Description: odd, Schema: raw}},
		Messages: []Message{
			{Role: User, Content: []Content{{Text: odd}, {Image: &Image{MediaType: "image/png", Data: []byte{0, 255}}}}},
			{Role: Assistant, Content: []Content{
				{Reasoning: &Reasoning{Text: odd, Signature: "s", Opaque: raw, Provider: "p"}}, {Call: &Call{ID: "c", Name: "t", Arguments: json.RawMessage(" {not\xff JSON")}},
			}},
			{Role: ToolRole, Content: []Content{{Result: &CallResult{ID: "c", Name: "t", Text: odd}}}},
		},
	}
	text, err := jsondoc.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	var read Request
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	var sends, reads Meter
	for i, next := range []struct{ sent, read Request }{{r, read}, {r, read}, {asks(odd), asks(odd)}} {
		if a, b := sends.Bound(next.sent), reads.Bound(next.read); a != b {
			t.Errorf("request %d: %+v where it is sent, %+v where it is read", i, a, b)
		}
		sends.Learn(r, convstore.Usage{Input: 100_000}, 0)
		reads.Learn(read, convstore.Usage{Input: 100_000}, 0)
	}
}

// TestMeterLeftOut: what a provider may not have been sent in a request that it counted pays for
// nothing that it is sent later.
func TestMeterLeftOut(t *testing.T) {
	const size = 8000
	long := strings.Repeat("7", size)
	say := func(r Role, list ...Content) Message { return Message{Role: r, Content: list} }
	hi, text := Content{Text: "hi"}, Content{Text: long}
	thinks := func(provider, text, signature string) Content {
		return Content{Reasoning: &Reasoning{Text: text, Signature: signature, Provider: provider}}
	}
	calls := func(id, name string) Content {
		return Content{Call: &Call{ID: id, Name: name, Arguments: json.RawMessage("{}")}}
	}
	results := func(id string) Message { return say(ToolRole, Content{Result: &CallResult{ID: id}}) }
	thread := func(list ...Message) Request { return Request{Messages: append([]Message{say(User, hi)}, list...)} }
	offers := func(choice string) Request {
		return Request{Messages: []Message{say(User, hi)}, ToolChoice: choice, Tools: []Tool{{Name: "t", Description: long, Schema: json.RawMessage("{}")}}}
	}
	typed := func(schema, description string) Request {
		r := offers("")
		r.Tools[0].Schema, r.Tools[0].Description = json.RawMessage(schema), description
		return r
	}
	object := "{\"" + strings.Repeat(`\u0061`, size/6) + "\":1}" // what a provider reads of it is less
	escaped := Content{Call: &Call{ID: "c", Name: "n", Arguments: json.RawMessage(object)}}
	schema := Request{Messages: []Message{say(User, hi)}, Schema: json.RawMessage(long)}
	beside := schema
	beside.Tools = offers("").Tools[:1:1]
	beside.Tools[0].Description = ""
	late := thread(say(Assistant, thinks("p", long, ""), calls("c", "n")), results("c"))
	past := thread(late.Messages[1], late.Messages[2], say(User, hi))
	blank := thread(late.Messages[1], late.Messages[2], say(User, Content{Text: " "}))
	many := func(n int, list ...Content) (r Request) {
		for range n {
			r.Messages = append(r.Messages, say(User, list...))
		}
		return r
	}
	for name, tt := range map[string]struct {
		counted, next Request
		least, most   int64 // tokens that are added to the count
	}{
		"the same":                          {thread(say(User, text)), thread(say(User, text)), 0, 0},
		"in another place of the thread":    {thread(say(User, text)), thread(results("c"), say(Assistant, text)), 0, 40},
		"signature of another provider":     {thread(say(Assistant, thinks("other", "", long), hi)), thread(say(Assistant, text)), size, size + 40},
		"reasoning of another provider":     {thread(say(Assistant, thinks("other", long, ""), hi)), thread(say(Assistant, thinks("p", long, ""), hi)), size, size + 40},
		"reasoning alone":                   {thread(say(Assistant, thinks("p", long, ""))), thread(say(Assistant, thinks("p", long, ""), hi)), size, size + 40},
		"reasoning of an earlier turn":      {past, late, size, size + 40},
		"reasoning before blank words":      {past, blank, size, size + 60},
		"reasoning that is of one now":      {late, past, 0, 40},
		"reasoning, once sent":              {late, thread(late.Messages[1], late.Messages[1]), size, size + 60},
		"end of a long name":                {thread(say(Assistant, calls("c", long)), results("c")), thread(say(Assistant, text)), size, size + 40},
		"id that is too long":               {thread(say(Assistant, calls(long, "n")), results(long)), thread(say(Assistant, text)), size, size + 40},
		"schema beside tools":               {beside, schema, size, size + 40},
		"schema as a text":                  {schema, thread(say(User, text)), size, size + 40},
		"arguments as a text":               {thread(say(Assistant, escaped), results("c")), thread(say(User, Content{Text: object})), size, size + 40},
		"schema of a tool as a description": {typed(object, "7"), typed("{}", object), size, size + 40},
		"tools that may not be called":      {offers("none"), offers(""), size, size + 40},
		"tools that may not be called more": {offers(""), offers("none"), 0, 0},
		"blank messages":                    {many(1000, Content{Text: " "}), many(1000, Content{Text: "7"}), 9000, 9000},
	} {
		var m Meter
		m.Learn(tt.counted, convstore.Usage{Input: size}, 0) // no less than the least share
		if more := m.Bound(tt.next).Hard - size; more < tt.least || more > tt.most {
			t.Errorf("%s: %d tokens more than were counted, want %d to %d", name, more, tt.least, tt.most)
		}
	}
}

// TestMeterAsSent: what is added to a text on its way is bounded too.
func TestMeterAsSent(t *testing.T) {
	wrong := Call{ID: "c", Name: "n", Arguments: json.RawMessage(strings.Repeat("<\x01", 100))}
	tiny := make([]Content, 100)
	for i := range tiny {
		tiny[i].Text = "7"
	}
	for name, tt := range map[string]struct {
		r    Request
		sent int64 // bytes
	}{
		"arguments that are no object": {Request{Messages: []Message{{Role: Assistant, Content: []Content{{Call: &wrong}}}}}, int64(len(wrong.Object()))},
		"many texts":                   {Request{Messages: []Message{{Role: User, Content: tiny}}}, 100 + 99*2},
		"many sections":                {Request{System: []Section{{"7"}, {"7"}, {"7"}}}, 3 + 2*2},
	} {
		var m Meter
		if b := m.Bound(tt.r); b.Hard < tt.sent || b.Tokens < tt.sent/3 {
			t.Errorf("%s: at most %+v, of %d bytes", name, b, tt.sent)
		}
	}
}

// TestMeterUnseen: with tools, and with a schema, Anthropic's models get a system prompt that
// nobody sees.
func TestMeterUnseen(t *testing.T) {
	for name, more := range map[string]int64{"claude-opus-4-7": 675 + 256, "anthropic/claude-sonnet-5": 675 + 256, "gpt-5": 0} {
		var m Meter
		r := asks("7")
		r.Model = name
		without := m.Bound(r)
		r.Tools, r.Schema = []Tool{{Name: "7"}, {Name: "77"}}, json.RawMessage("7")
		more += 2*toolTokens + 4
		if got, want := m.Bound(r), (Bound{without.Tokens + more, without.Hard + more}); got != want {
			t.Errorf("%s: bound %+v, want %+v", name, got, want)
		}
	}
}

// TestMost: the price of long prompts counts as soon as a prompt can be one, and the dearest kind
// of input.
func TestMost(t *testing.T) {
	p := Price{Input: 2, Output: 10, CacheWrite: 3, Long: &LongPrice{Above: 1000, Input: 20, Output: 100, CacheWrite: 25}}
	for _, tt := range []struct {
		price     Price
		in        Bound
		out, want int64
	}{
		{p, Bound{10, 20}, 1, 10*3 + 10},
		{p, Bound{900, 1000}, 1, 900*3 + 10},
		{p, Bound{900, 1001}, 1, 900*25 + 100},
		{p, Bound{1001, 3000}, 0, 1001 * 25},
		{p, Bound{}, 1, 10},
		{Price{Input: 2, CacheRead: 9, CacheWrite: 3}, Bound{10, 20}, 1, 10 * 9},
	} {
		if got := tt.price.Most(tt.in, tt.out); got != tt.want {
			t.Errorf("Most(%+v, %d) = %d, want %d", tt.in, tt.out, got, tt.want)
		}
	}
}

// TestMostCovers: no usage within the bound of a call costs more than was reserved for it,
// whichever parts of the input a provider has read from its cache or written to it. What is
// estimated where it states none is within the bound too.
func TestMostCovers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		amount := rapid.OneOf(rapid.Int64Range(0, 50), rapid.Int64Range(0, 1<<40))
		p := Price{amount.Draw(rt, "input"), amount.Draw(rt, "output"), amount.Draw(rt, "read"), amount.Draw(rt, "write"), nil}
		if rapid.Bool().Draw(rt, "long") { // is never cheaper
			l := LongPrice{amount.Draw(rt, "above"), amount.Draw(rt, "i"), amount.Draw(rt, "o"), amount.Draw(rt, "r"), amount.Draw(rt, "w")}
			p.Long = &LongPrice{l.Above, max(l.Input, p.Input), max(l.Output, p.Output), max(l.CacheRead, p.CacheRead), max(l.CacheWrite, p.CacheWrite)}
		}
		in, out := max(amount.Draw(rt, "tokens"), 1), rapid.Int64Range(1, 1<<17).Draw(rt, "out")
		within := func(most int64, of string) int64 { return rapid.Int64Range(0, most).Draw(rt, of) }
		u := convstore.Usage{Output: within(out, "used")}
		u.CacheRead = within(in, "cached")
		u.CacheWrite = within(in-u.CacheRead, "kept")
		u.Input = within(in-u.CacheRead-u.CacheWrite, "new")

		c := counter{request: asks(strings.Repeat("x", int(within(500, "text")))), said: within(out*longToken, "said")}
		c.request.MaxInput, c.request.MaxTokens = in, int(out)
		if rapid.Bool().Draw(rt, "stated") {
			c.reported = Part{Usage: &u}
		}
		var err error
		if rapid.Bool().Draw(rt, "broken") {
			err = &Error{Kind: KindStream}
		}
		used, some := c.used(err)
		if !some {
			return
		}
		if charged, most := *p.Charged(*used.Usage, nil), p.Most(Bound{in, in + within(1000, "hard")}, out); charged > most || charged < p.Cost(u) && c.reported.Usage != nil {
			rt.Fatalf("%+v is charged %d, of %d that were reserved", *used.Usage, charged, most)
		}
	})
}

// FuzzTextBound: a text has never more tokens than bytes, but for what replaces bytes that are no
// text.
func FuzzTextBound(f *testing.F) {
	for _, s := range []string{"", "a", "Ab cd", "1 2\t3", "--==", "\n\n\n", "é日🫠", "\xff\xfe", "xXxXxX"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := textBound(s)
		if most := int64(len(strings.ToValidUTF8(s, "\uFFFD"))); n < 0 || utf8.ValidString(s) && n > most {
			t.Errorf("%q: %d tokens, of %d bytes", s, n, most)
		}
		if s != "" && n == 0 {
			t.Errorf("%q: no token", s)
		}
	})
}

// TestCharged: what a provider says of the cost counts where it is more than is known.
func TestCharged(t *testing.T) {
	u := convstore.Usage{Input: 2, Output: 1}
	price := &Price{Input: 5, Output: 6}
	for name, tt := range map[string]struct {
		price    *Price
		reported *int64
		want     *int64
	}{
		"neither":         {nil, nil, nil},
		"only the report": {nil, new(int64(7)), new(int64(7))},
		"only the price":  {price, nil, new(int64(16))},
		"both":            {price, new(int64(7)), new(int64(16))},
		"more than known": {price, new(int64(20)), new(int64(20))},
		"not free":        {&Price{}, new(int64(7)), new(int64(7))},
	} {
		if got := tt.price.Charged(u, tt.reported); (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s: Charged = %v, want %v", name, got, tt.want)
		}
	}
}
