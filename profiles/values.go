package profiles

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"jp/profiles/tomldoc"
	"jp/tools/brief"
	"jp/tools/period"
	"jp/tools/suggest"
)

// kind is the kind of the values of a setting; its text is the name of the kind in messages.
type kind string

const (
	text     kind = "text"
	truth    kind = "true or false"
	whole    kind = "a whole number"
	numeric  kind = "a number"
	duration kind = `a duration such as "90s" or "10m"`
	texts    kind = "a list of text"
	either   kind = "text or a list of text"
	tokens   kind = `a whole number or "unlimited"`
	dollars  kind = `a number or "unlimited"`
	sections kind = "a list of tables"
	open     kind = "a table"
)

const unlimited = "unlimited"

// nameKind says what a value is, in the words of kind.
func nameKind(v any) string {
	switch v.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	case int64:
		return "a whole number"
	case float64:
		return "a number"
	case []any:
		return "a list"
	}
	return "a table"
}

// accept checks that v is of kind k, but not the items of a list.
func (k kind) accept(v any) error {
	ok := false
	switch v := v.(type) {
	case string:
		if k == duration {
			if _, err := period.Parse(v); err != nil {
				return fmt.Errorf("must be %s", k)
			}
			return nil
		}
		ok = k == text || k == either || (k == tokens || k == dollars) && v == unlimited
		if !ok && (k == tokens || k == dollars) {
			return fmt.Errorf("must be %s, not other text", k)
		}
	case bool:
		ok = k == truth
	case int64:
		ok = k == whole || k == numeric || k == tokens || k == dollars
	case float64:
		ok = k == numeric || k == dollars
	case map[string]any:
		ok = k == open
	case []any:
		ok = k == texts || k == sections || k == either
	}
	if !ok {
		return fmt.Errorf("must be %s, not %s", k, nameKind(v))
	}
	return nil
}

// parse reads a value written as text, in a variable or after key=.
func (k kind) parse(s string) (any, error) {
	var v any = s
	switch k {
	case truth:
		switch s {
		case "true", "1":
			v = true
		case "false", "0":
			v = false
		default:
			return nil, fmt.Errorf("must be %s", k)
		}
	case whole, tokens, numeric, dollars:
		if s == unlimited && (k == tokens || k == dollars) {
			break
		}
		n, err := tomldoc.Number(s)
		if _, isFloat := n.(float64); err != nil || strings.Trim(s, "+-0123456789.eE") != "" || isFloat && (k == whole || k == tokens) {
			return nil, fmt.Errorf("must be %s", k)
		}
		v = n
	case texts, sections, open:
		return nil, fmt.Errorf("must be %s, written as JSON", k)
	}
	return v, nil
}

// guess parses a value of a tool's table, whose keys are not known here.
func guess(s string) any {
	switch s {
	case "true":
		return true
	case "false":
		return false
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(n, 10) == s {
		return n
	}
	return s
}

// assign stores an accepted value where the pointer of a field function points.
func assign(to, v any) {
	switch to := to.(type) {
	case func(any):
		to(v)
	case *string:
		*to = v.(string)
	case *bool:
		*to = v.(bool)
	case *int:
		*to = int(v.(int64))
	case *int64:
		*to = v.(int64)
	case *float64:
		*to = float(v)
	case **int:
		n := int(v.(int64))
		*to = &n
	case **int64:
		*to = nil
		if n, ok := v.(int64); ok {
			*to = &n
		}
	case **float64:
		f := float(v)
		*to = &f
	case *time.Duration:
		*to, _ = period.Parse(v.(string))
	case *[]string:
		list := make([]string, 0, len(v.([]any)))
		for _, item := range v.([]any) {
			list = append(list, item.(string))
		}
		*to = list
	case *[]Section:
		list := make([]Section, 0, len(v.([]any)))
		for _, item := range v.([]any) {
			t := item.(map[string]any)
			title, _ := t["title"].(string)
			list = append(list, Section{Title: title, Content: t["content"].(string)})
		}
		*to = list
	default:
		panic(fmt.Sprintf("profiles: no assignment to %T", to)) // a row of the table is wrong
	}
}

func float(v any) float64 {
	if n, ok := v.(int64); ok {
		return float64(n)
	}
	return v.(float64)
}

// units fills a duration from a count.
func units(d *time.Duration, unit time.Duration) func(any) {
	return func(v any) { *d = time.Duration(v.(int64)) * unit }
}

// nano fills a limit in nano-dollars from dollars.
func nano(limit **int64) func(any) {
	return func(v any) {
		*limit = nil
		if v != unlimited {
			n := nanoDollars(v)
			*limit = &n
		}
	}
}

func nanoDollars(v any) int64 { return int64(math.Round(float(v) * 1e9)) }

func price(set func(*Price, int64)) func(*Config, []string) any {
	return func(c *Config, names []string) any {
		return func(v any) {
			p := c.Providers.Prices[names[0]]
			set(&p, nanoDollars(v))
			c.Providers.Prices[names[0]] = p
		}
	}
}

func provider(set func(*Provider, string)) func(*Config, []string) any {
	return func(c *Config, names []string) any {
		return func(v any) {
			p := c.Providers.LLM[names[0]]
			set(&p, v.(string))
			c.Providers.LLM[names[0]] = p
		}
	}
}

func server(set func(s *MCPServer, v any, below string)) func(*Config, []string) any {
	return func(c *Config, names []string) any {
		return func(v any) {
			s := c.Providers.MCP[names[0]]
			set(&s, v, names[len(names)-1])
			c.Providers.MCP[names[0]] = s
		}
	}
}

func putText(to *map[string]string, name string, v any) {
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[name] = v.(string)
}

// Checks of values whose kind is right. Their errors say what a value must be and never repeat it.

func oneOf(words ...string) func(any) error {
	return func(v any) error {
		if slices.Contains(words, v.(string)) {
			return nil
		}
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = strconv.Quote(w)
		}
		return &hinted{"must be " + brief.Or(quoted), suggest.Meant("did you mean %q?", v.(string), words)}
	}
}

// hinted is the error of a check, with a hint about what to try.
type hinted struct{ msg, hint string }

func (h *hinted) Error() string { return h.msg }

func between(lo, hi float64) func(any) error {
	return func(v any) error {
		if f := float(v); f < lo || f > hi {
			return fmt.Errorf("must be between %s and %s", plainNumber(lo), plainNumber(hi))
		}
		return nil
	}
}

func plainNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func atLeast(lo int64) func(any) error {
	return func(v any) error {
		if n, ok := v.(int64); ok && n < lo {
			return fmt.Errorf("must not be below %d", lo)
		}
		return nil
	}
}

func upTo(hi float64) func(any) error {
	limits := between(0, hi)
	return func(v any) error {
		if v == unlimited {
			return nil
		}
		return limits(v)
	}
}

func positive(v any) error {
	if d, _ := period.Parse(v.(string)); d <= 0 {
		return errors.New("must be longer than nothing")
	}
	return nil
}

func notEmpty(v any) error {
	if strings.TrimSpace(v.(string)) == "" {
		return errors.New("must not be empty")
	}
	return noControl(v)
}

func noControl(v any) error {
	if strings.ContainsFunc(v.(string), unicode.IsControl) {
		return errors.New("must not contain control characters")
	}
	return nil
}

// checkModelName accepts values of assistant.model: a model id, or a word that may be an alias.
func checkModelName(v any) error {
	s := v.(string)
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return errors.New("must be provider/model or an alias, without spaces")
	}
	if strings.Contains(s, "/") {
		return checkModelID(s)
	}
	return nil
}

// checkModelID accepts provider/model. The model part may hold slashes of its own.
func checkModelID(v any) error {
	s := v.(string)
	name, model, ok := strings.Cut(s, "/")
	if !ok || name == "" || model == "" || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return errors.New("must be provider/model, without spaces")
	}
	return nil
}

func checkProfileRef(v any) error {
	p, err := parseDirective(Directive{Text: v.(string)})
	if err != nil || p.form != nameForm && !(p.form == builtinForm && isName(p.arg)) {
		return errors.New("must be the name of a profile such as agent/researcher, or builtin:<name>")
	}
	return nil
}

func checkURL(v any) error {
	u, err := url.Parse(v.(string))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must be an http or https address")
	case u.User != nil:
		return errors.New("must not contain a user or password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("must not contain a query or a fragment")
	}
	return nil
}

func checkVariable(v any) error {
	s := v.(string)
	for i := range len(s) {
		if !tomldoc.IsBare(s[i]) || s[i] == '-' || i == 0 && s[i] >= '0' && s[i] <= '9' {
			s = ""
			break
		}
	}
	if s == "" {
		return &hinted{"must be the name of an environment variable", "put the key into a variable and its name here; config never holds keys"}
	}
	return nil
}

func checkPath(v any) error {
	s := v.(string)
	if !filepath.IsAbs(s) && !strings.HasPrefix(s, "~/") || strings.ContainsRune(s, 0) {
		return errors.New("must be an absolute path or begin with ~/")
	}
	return nil
}

func checkLogFile(v any) error {
	if v == "-" {
		return nil
	}
	return checkPath(v)
}

// Checks of names in keys.

func checkAlias(s string) error {
	if strings.Contains(s, "/") || checkModelName(s) != nil {
		return errors.New("an alias must be a word without / and spaces")
	}
	return nil
}

func checkPriced(s string) error {
	if checkModelID(s) != nil {
		return errors.New("prices are given for provider/model, in quotes")
	}
	return nil
}

func checkWord(s string) error {
	if !tomldoc.IsBareKey(s) {
		return errors.New("the names of servers, variables and headers must be letters, digits, - and _")
	}
	return nil
}

func checkProvider(s string) error {
	switch {
	case !tomldoc.IsBareKey(s):
		return errors.New("the name of a provider must be letters, digits, - and _")
	case s == "script":
		return errors.New("script is the name of the scripted model and no provider")
	}
	return nil
}
