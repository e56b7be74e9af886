{{/*
The entries of a map which are set: neither null nor an empty string, list or
map. false and 0 are kept.
*/}}
{{- define "rke2-cluster.setEntries" -}}
{{- $set := dict -}}
{{- range $key, $value := . -}}
{{- if or $value (not (has (kindOf $value) (list "invalid" "string" "slice" "map"))) -}}
{{- $_ := set $set $key $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $set -}}
{{- end -}}

{{/*
Name of a pool's machine config, at most 63 characters: <cluster>-<pool>-<hash>.
Another content is another object, because Rancher rolls the pool anyway. The
hash covers cluster and pool too: they keep names apart which are cut, and
"a" with pool "b-c" from "a-b" with pool "c"; Rancher refuses a machine config
that belongs to another cluster.
Call with {cluster, pool, machineConfig}.
*/}}
{{- define "rke2-cluster.machineConfigName" -}}
{{- $config := include "rke2-cluster.setEntries" .machineConfig | fromYaml -}}
{{- $hash := list .cluster .pool $config | toJson | sha256sum | trunc 8 -}}
{{- printf "%s-%s" (printf "%s-%s" .cluster .pool | trunc 54) $hash -}}
{{- end -}}

{{/*
An entry of machinePools. Call with {values, name, pool}.
*/}}
{{- define "rke2-cluster.machinePool" -}}
{{- $entry := dict -}}
{{- range $settings := list .values.poolDefaults (omit .pool "roles" "machineConfig") -}}
{{- range $key, $value := $settings -}}
{{- $_ := set $entry $key $value -}}
{{- end -}}
{{- end -}}
{{- $roleKeys := dict "control-plane" "controlPlaneRole" "etcd" "etcdRole" "worker" "workerRole" -}}
{{- range .pool.roles -}}
{{- $_ := set $entry (get $roleKeys .) true -}}
{{- end -}}
{{- $configName := include "rke2-cluster.machineConfigName" (dict "cluster" .values.cluster.name "pool" .name "machineConfig" .pool.machineConfig) -}}
{{- $_ := set $entry "name" .name -}}
{{- $_ := set $entry "machineConfigRef" (dict "kind" .values.machineConfigKind "name" $configName) -}}
{{- with $entry.rollingUpdate -}}
{{- $surge := dig "maxSurge" 1 . | toString | trimSuffix "%" -}}
{{- $unavailable := dig "maxUnavailable" 0 . | toString | trimSuffix "%" -}}
{{- if and (eq $surge "0") (eq $unavailable "0") -}}
{{- fail (printf "pools.%s.rollingUpdate: maxSurge and maxUnavailable are both 0, so no machine could ever be replaced; raise one of them" $.name) -}}
{{- end -}}
{{- end -}}
{{- include "rke2-cluster.setEntries" $entry -}}
{{- end -}}

{{/*
Fails unless every role has a node. Workers may be scaled to zero, but a worker
pool must exist.
*/}}
{{- define "rke2-cluster.requireRoles" -}}
{{- range $role := list "control-plane" "etcd" "worker" -}}
{{- $held := false -}}
{{- range $.Values.pools -}}
{{- if and (has $role .roles) (or (eq $role "worker") (gt (int .quantity) 0)) -}}
{{- $held = true -}}
{{- end -}}
{{- end -}}
{{- if not $held -}}
{{- fail (printf "pools: no pool has the role %s and a node for it; Rancher waits until there is a control-plane, an etcd and a worker node" $role) -}}
{{- end -}}
{{- end -}}
{{- end -}}
