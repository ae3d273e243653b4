// Package kinds has the kinds of values that a setting can have, and checks of such values. It
// knows no setting and no layer. The errors say what a value must be and never repeat it.
package kinds

import (
	"errors"
	"fmt"
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

// Kind is the kind of the values of a setting; its text is the name of the kind in messages.
type Kind string

// The kinds.
const (
	Text     Kind = "text"
	Truth    Kind = "true or false"
	Whole    Kind = "a whole number"
	Number   Kind = "a number"
	Duration Kind = `a duration such as "90s" or "10m"`
	Texts    Kind = "a list of text"
	Either   Kind = "text or a list of text"
	Tokens   Kind = `a whole number or "unlimited"`
	Dollars  Kind = `a number or "unlimited"`
	Sections Kind = "a list of tables"
	Table    Kind = "a table"
)

// Unlimited is the text that stands for no limit.
const Unlimited = "unlimited"

// NameOf says what a value is, in the words of kind.
func NameOf(v any) string {
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

// Accept checks that v is of kind k, but not the items of a list.
func (k Kind) Accept(v any) error {
	ok := false
	switch v := v.(type) {
	case string:
		if k == Duration {
			if _, err := period.Parse(v); err != nil {
				return fmt.Errorf("must be %s", k)
			}
			return nil
		}
		ok = k == Text || k == Either || (k == Tokens || k == Dollars) && v == Unlimited
		if !ok && (k == Tokens || k == Dollars) {
			return fmt.Errorf("must be %s, not other text", k)
		}
	case bool:
		ok = k == Truth
	case int64:
		ok = k == Whole || k == Number || k == Tokens || k == Dollars
	case float64:
		ok = k == Number || k == Dollars
	case map[string]any:
		ok = k == Table
	case []any:
		ok = k == Texts || k == Sections || k == Either
	}
	if !ok {
		return fmt.Errorf("must be %s, not %s", k, NameOf(v))
	}
	return nil
}

// Parse reads a value written as text, in a variable or after key=.
func (k Kind) Parse(s string) (any, error) {
	var v any = s
	switch k {
	case Truth:
		switch s {
		case "true", "1":
			v = true
		case "false", "0":
			v = false
		default:
			return nil, fmt.Errorf("must be %s", k)
		}
	case Whole, Tokens, Number, Dollars:
		if s == Unlimited && (k == Tokens || k == Dollars) {
			break
		}
		n, err := tomldoc.Number(s)
		if _, isFloat := n.(float64); err != nil || strings.Trim(s, "+-0123456789.eE") != "" || isFloat && (k == Whole || k == Tokens) {
			return nil, fmt.Errorf("must be %s", k)
		}
		v = n
	case Texts, Sections, Table:
		return nil, fmt.Errorf("must be %s, written as JSON", k)
	}
	return v, nil
}

// Nano reads US dollars as people and programs write them, 0.25, 5e-05 or 0.09999999999999998, in
// billionths. What is less than one is cut off: a limit is never more than was written.
func Nano(s string) (int64, bool) {
	if strings.ContainsAny(s, "eE") && strings.Trim(s, "+-0123456789.eE") == "" {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return 0, false
		}
		s = strconv.FormatFloat(f, 'f', -1, 64)
	}
	whole, frac, point := strings.Cut(s, ".")
	if point && frac == "" || len(whole) > 10 || s == "" || strings.Trim(whole+frac, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(whole+(frac + "000000000")[:9], 10, 64)
	return n, err == nil
}

// Guess parses a value of a tool's table, whose keys are not known here.
func Guess(s string) any {
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

// Float returns a number as a float64.
func Float(v any) float64 {
	if n, ok := v.(int64); ok {
		return float64(n)
	}
	return v.(float64)
}

// Checks of values whose kind is right.

// OneOf accepts these texts.
func OneOf(words ...string) func(any) error {
	return func(v any) error {
		if slices.Contains(words, v.(string)) {
			return nil
		}
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = strconv.Quote(w)
		}
		return &Hinted{"must be " + brief.Or(quoted), suggest.Meant("did you mean %q?", v.(string), words)}
	}
}

// Hinted is the error of a check, with a hint about what to try.
type Hinted struct{ Msg, Hint string }

func (h *Hinted) Error() string { return h.Msg }

// Between accepts numbers from lo to hi.
func Between(lo, hi float64) func(any) error {
	return func(v any) error {
		if f := Float(v); f < lo || f > hi {
			return fmt.Errorf("must be between %s and %s", plainNumber(lo), plainNumber(hi))
		}
		return nil
	}
}

func plainNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// AtLeast accepts whole numbers from lo on, and "unlimited".
func AtLeast(lo int64) func(any) error {
	return func(v any) error {
		if n, ok := v.(int64); ok && n < lo {
			return fmt.Errorf("must not be below %d", lo)
		}
		return nil
	}
}

// UpTo accepts numbers from 0 to hi, and "unlimited".
func UpTo(hi float64) func(any) error {
	limits := Between(0, hi)
	return func(v any) error {
		if v == Unlimited {
			return nil
		}
		return limits(v)
	}
}

// Positive accepts durations above zero.
func Positive(v any) error {
	if d, _ := period.Parse(v.(string)); d <= 0 {
		return errors.New("must be longer than nothing")
	}
	return nil
}

// NotEmpty accepts text with more than spaces in it, without control characters.
func NotEmpty(v any) error {
	if strings.TrimSpace(v.(string)) == "" {
		return errors.New("must not be empty")
	}
	return NoControl(v)
}

// NoControl accepts text without control characters.
func NoControl(v any) error {
	if strings.ContainsFunc(v.(string), unicode.IsControl) {
		return errors.New("must not contain control characters")
	}
	return nil
}

// ModelName accepts values of assistant.model: a model id, or a word that may be an alias.
func ModelName(v any) error {
	s := v.(string)
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return errors.New("must be provider/model or an alias, without spaces")
	}
	if strings.Contains(s, "/") {
		return ModelID(s)
	}
	return nil
}

// ModelID accepts provider/model. The model part may hold slashes of its own.
func ModelID(v any) error {
	s := v.(string)
	name, model, ok := strings.Cut(s, "/")
	if !ok || name == "" || model == "" || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return errors.New("must be provider/model, without spaces")
	}
	return nil
}

// URL accepts http and https addresses without a secret in them.
func URL(v any) error {
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

// Variable accepts names of variables of the environment.
func Variable(v any) error {
	s := v.(string)
	for i := range len(s) {
		if !tomldoc.IsBare(s[i]) || s[i] == '-' || i == 0 && s[i] >= '0' && s[i] <= '9' {
			s = ""
			break
		}
	}
	if s == "" {
		return &Hinted{"must be the name of an environment variable", "put the key into a variable and its name here; config never holds keys"}
	}
	return nil
}

// Path accepts absolute paths, and those that begin with ~/.
func Path(v any) error {
	s := v.(string)
	if !filepath.IsAbs(s) && !strings.HasPrefix(s, "~/") || strings.ContainsRune(s, 0) {
		return errors.New("must be an absolute path or begin with ~/")
	}
	return nil
}

// LogFile accepts paths, and "-".
func LogFile(v any) error {
	if v == "-" {
		return nil
	}
	return Path(v)
}

// Checks of names in keys.

// Alias accepts names of aliases of models.
func Alias(s string) error {
	if strings.Contains(s, "/") || ModelName(s) != nil {
		return errors.New("an alias must be a word without / and spaces")
	}
	return nil
}

// Priced accepts names of models that have a price.
func Priced(s string) error {
	if ModelID(s) != nil {
		return errors.New("prices are given for provider/model, in quotes")
	}
	return nil
}

// Word accepts names of servers, variables and headers.
func Word(s string) error {
	if !tomldoc.IsBareKey(s) {
		return errors.New("the names of servers, variables and headers must be letters, digits, - and _")
	}
	return nil
}

// Provider accepts names of providers.
func Provider(s string) error {
	switch {
	case !tomldoc.IsBareKey(s):
		return errors.New("the name of a provider must be letters, digits, - and _")
	case s == "script":
		return errors.New("script is the name of the scripted model and no provider")
	}
	return nil
}

// Keys accepts the places where keys of models can be.
func Keys(v any) error {
	if v == "node" {
		return &Hinted{`"node" is not built: this machine makes all calls of models`, `write "home", or leave it out`}
	}
	return OneOf("home")(v)
}

// Each makes a check of values from one of texts.
func Each(check func(string) error) func(any) error {
	return func(v any) error { return check(v.(string)) }
}

// Within bounds a duration by two others, written as in a file.
func Within(lo, hi string) func(any) error {
	parse := func(v any) time.Duration { d, _ := period.Parse(v.(string)); return d }
	return func(v any) error {
		if d := parse(v); d < parse(lo) || d > parse(hi) {
			return errors.New("must be between " + lo + " and " + hi)
		}
		return nil
	}
}
