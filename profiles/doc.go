// Package profiles turns config files, the environment and flags into one checked Config, and says
// of each value where it came from.
//
// [Resolve] is the whole of it: it reads the implicit layers (the user's config.toml, the
// workspace's .jp/config.toml, JP_CFG_* variables, the conversation's stored config), applies the
// --cfg [Directive]s in order and the specific flags last, and returns a [Resolved]: the typed
// [Config], the tool tables, not decoded, the [Layer]s that were read and what to store with a new
// conversation.
//
// An agent profile is a config file that drops all settings before it (`[loader] reset = "none"`),
// so reading that one file says what the agent can do. [Find] and [Names] look profiles up,
// [Builtin] returns those that are compiled in, [InitFiles] what `jp init` writes.
//
// # Layers
//
// Later wins. Tables merge key by key; everything else, lists included, is replaced whole, and so
// is the `command` of a tool, so that no command is ever put together from two files:
//
//	program defaults < user config.toml < workspace config.toml < environment < stored config < --cfg ... < flags
//
// The stored config of a conversation is complete. It replaces the layers before it and is not
// merged with them: what is enabled in a workspace today does not leak into an agent that was made
// yesterday.
//
// Two kinds of keys are special. Machine settings (`store`, `log`, `editor`, `pager`,
// `launchers`, `providers.llm` but for its aliases) are taken only from the user's config.toml, the
// environment and the command line; no reset drops them and no conversation stores them. Loader
// settings (`extends`, `loader.reset`, `config_load_paths`) steer the reading of files and are not
// stored either.
//
// # Traps
//
// A list in a later layer replaces the earlier list, also `assistant.system_prompt_sections`.
// Positions exist only for files; for a value from the environment or a flag, its name is reported.
// Errors have keys and positions, not values, which could be secrets; the exceptions are names of
// models and profiles, and what the TOML decoder quotes. Files of a workspace come from
// Sources.Files alone, also those that a path on the command line names; other paths there may lead
// anywhere.
package profiles
