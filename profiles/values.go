package profiles

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"jp/profiles/kinds"
	"jp/tools/period"
)

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
		*to = kinds.Float(v)
	case **int:
		n := int(v.(int64))
		*to = &n
	case **int64:
		*to = nil
		if n, ok := v.(int64); ok {
			*to = &n
		}
	case **float64:
		f := kinds.Float(v)
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

// units fills a duration from a count.
func units(d *time.Duration, unit time.Duration) func(any) {
	return func(v any) { *d = time.Duration(v.(int64)) * unit }
}

// nano fills a limit in nano-dollars from dollars, rounded down.
func nano(limit **int64) func(any) {
	return func(v any) {
		*limit = nil
		if v != kinds.Unlimited {
			n, _ := kinds.Nano(strconv.FormatFloat(kinds.Float(v), 'f', -1, 64)) // an accepted value
			*limit = &n
		}
	}
}

func price(set func(*Price, int64)) func(*Config, []string) any {
	return func(c *Config, names []string) any {
		return func(v any) {
			p := c.Providers.Prices[names[0]]
			set(&p, int64(math.Round(kinds.Float(v)*1e9)))
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

func checkProfileRef(v any) error {
	p, err := parseDirective(Directive{Text: v.(string)})
	if err != nil || p.form != nameForm && !(p.form == builtinForm && isName(p.arg)) {
		return errors.New("must be the name of a profile such as agent/researcher, or builtin:<name>")
	}
	return nil
}
