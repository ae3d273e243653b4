// Package environ says which variables of the environment a tool may have: no keys of jp, and
// nothing that decides what programs load or run.
package environ

import (
	"slices"
	"strings"

	"jp/tools/template"
)

// Forbidden returns the reason why a tool may not ask for an environment variable; "" if it may.
func Forbidden(name string) string {
	has := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	}
	switch {
	case !template.IsName(name) || strings.Contains(name, "-"):
		return "is no name of a variable"
	case slices.Contains(providerKeys, name):
		return "is the key of a model provider, and no tool gets one"
	case IsCollectorKey(name):
		return "may hold the key of a trace collector, and no tool gets one"
	case has("JP_"):
		return "is jp's own"
	case has("LD_", "DYLD_", "GCONV_", "GLIBC_"), slices.Contains(loaderVariables, name):
		return "decides what programs load or run, and no tool gets one from outside"
	case has("BASH_", "PYTHON", "PERL", "RUBY", "NODE_", "LUA_", "GIT_CONFIG", "GIT_SSH"):
		return "decides what programs load or run, and no tool gets one from outside"
	}
	return ""
}

// IsProviderKey reports whether a variable holds a key of jp's (of a model provider or of a trace
// collector) or is jp's own. No program but jp gets it.
func IsProviderKey(name string) bool {
	return slices.Contains(providerKeys, name) || IsCollectorKey(name) || strings.HasPrefix(name, "JP_")
}

// IsCollectorKey reports whether a variable holds the headers that OpenTelemetry sends along.
func IsCollectorKey(name string) bool {
	return strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") && strings.HasSuffix(name, "HEADERS")
}

// providerKeys are the variables that hold keys of model providers. Those that a configuration
// names are in CommandEnv.Secrets.
var providerKeys = strings.Fields(`
	ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN CLAUDE_CODE_OAUTH_TOKEN OPENAI_API_KEY OPENAI_ADMIN_KEY
	AZURE_OPENAI_API_KEY OPENROUTER_API_KEY GEMINI_API_KEY GOOGLE_API_KEY MISTRAL_API_KEY DEEPSEEK_API_KEY
	XAI_API_KEY GROQ_API_KEY CEREBRAS_API_KEY TOGETHER_API_KEY FIREWORKS_API_KEY COHERE_API_KEY
	PERPLEXITY_API_KEY OLLAMA_API_KEY AWS_BEARER_TOKEN_BEDROCK HF_TOKEN
`)

// loaderVariables are single variables that make programs load or run code.
var loaderVariables = strings.Fields(`
	ENV SHELLOPTS BASHOPTS PS4 IFS PROMPT_COMMAND ZDOTDIR FPATH GLOBIGNORE
	JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH MAVEN_OPTS GRADLE_OPTS
	PHPRC PHP_INI_SCAN_DIR R_PROFILE R_PROFILE_USER R_ENVIRON R_ENVIRON_USER JULIA_LOAD_PATH TCLLIBPATH
	GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_ASKPASS GIT_EXEC_PATH GIT_TEMPLATE_DIR
	GIT_PROXY_COMMAND SSH_ASKPASS SUDO_ASKPASS EDITOR VISUAL PAGER MANPAGER BROWSER LESSOPEN LESSCLOSE
	MAKEFLAGS MFLAGS GNUMAKEFLAGS RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER HOSTALIASES LOCALDOMAIN RES_OPTIONS
`)

// Value returns the value of a variable in environ, "" without one.
func Value(environ []string, name string) string {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}
